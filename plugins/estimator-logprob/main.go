// Command estimator-logprob is a stepfall plugin that estimates the quality of an answer from the
// log-probabilities of its tokens, with a regression trained on recorded outcomes.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/plugin"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
)

// Config is the plugin's config block in a policy.
type Config struct {
	Classifier string   `stepfall:"classifier,required" doc:"The output of stepfall fit --classifier: the path of the file, or its contents, as file(\"classifier.json\") gives them."`
	Classes    []string `stepfall:"classes" doc:"The classes of one-word answers: with them, the distribution over the classes and its Jensen-Shannon divergence from earlier answers are signals."`
}

func main() {
	plugin.Main(description())
}

func description() plugin.Plugin {
	return plugin.Plugin{
		Name: "estimator-logprob", Version: "1.0.0",
		Doc:   "Estimates the quality of an answer from the log-probabilities of its tokens (separately for the arguments of tool calls) and from its agreement with earlier answers. Abstains on models that have not run and on answers without log-probabilities. `stepfall fit --classifier` makes the classifier.",
		Roles: []plugin.Role{plugin.QualityEstimator(open)},
	}
}

func open(_ context.Context, c Config) (sdk.QualityEstimator, error) {
	trained, err := readClassifier(c.Classifier)
	if err != nil {
		return nil, schema.Errorf([]string{"classifier"}, "%v", err)
	}
	seen := map[string]bool{}
	for i, class := range c.Classes {
		folded := strings.ToLower(strings.TrimSpace(class))
		if folded == "" || seen[folded] {
			return nil, schema.Errorf([]string{"classes", fmt.Sprint(i)}, "%q is empty or there twice", class)
		}
		seen[folded] = true
	}
	return &estimator{trained, c.Classes}, nil
}

func readClassifier(given string) (*estimate.Classifier, error) {
	if strings.HasPrefix(strings.TrimSpace(given), "{") {
		return estimate.ReadClassifier(strings.NewReader(given))
	}
	file, err := os.Open(given)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	trained, err := estimate.ReadClassifier(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", given, err)
	}
	return trained, nil
}
