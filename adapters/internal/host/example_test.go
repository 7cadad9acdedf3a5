package host_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stepfall/stepfall/adapters/internal/host"
	"github.com/stepfall/stepfall/sdk"
)

// A plugin with a name and a config becomes an ordinary estimator. Its process starts with the first call and ends with
// the host. Here the program is this test binary, under the plugin's name.
func Example() {
	dir, err := os.MkdirTemp("", "plugins")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	program, err := os.Executable()
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := os.Symlink(program, filepath.Join(dir, "test")); err != nil {
		fmt.Println(err)
		return
	}

	h, err := host.New(host.Config{SearchPath: []string{dir}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close()
	estimator, err := h.QualityEstimator("guess", "test", map[string]any{"mean": 0.8})
	if err != nil {
		fmt.Println(err)
		return
	}
	response, err := estimator.EstimateQuality(context.Background(), &sdk.QualityRequest{Query: &sdk.Query{}, Models: []string{"small", "large"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, estimate := range response.Estimates {
		fmt.Printf("%.1f ± %.1f\n", estimate.Mean, estimate.StdDev)
	}
	// Output:
	// 0.8 ± 0.1
	// 0.8 ± 0.1
}
