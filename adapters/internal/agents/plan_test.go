package agents

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/internal/forecast"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
)

// stage holds an agent's tasks with the cast that does them.
type stage struct {
	agent *Agent
	cast  *Cast
	tasks []*Task
	// anonymous says that nobody names runs and queries.
	anonymous bool
}

// newStage returns an agent's tasks with models for which they are easier or harder than in the bench, and which err
// elsewhere.
func newStage(agent *Agent, n, seed int, ease float64) *stage {
	s := &stage{agent: agent, cast: NewCast(agent), tasks: agent.Tasks[:n]}
	s.cast.salt, s.cast.models = fmt.Sprint(seed, "/"), slices.Clone(Models)
	for m := range s.cast.models {
		for k := range s.cast.models[m].Skill {
			s.cast.models[m].Skill[k] += ease
		}
	}
	return s
}

// keyed names the steps of a run by their conversation, as stepfall collect does.
type keyed struct {
	*router.Router
	task, run string
}

func (k keyed) GenerateContent(ctx context.Context, messages []llms.MessageContent, o ...llms.CallOption) (*llms.ContentResponse, error) {
	var said strings.Builder
	for _, m := range messages[1:] {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case llms.ToolCall:
				fmt.Fprint(&said, p.FunctionCall.Name, strings.ReplaceAll(p.FunctionCall.Arguments, " ", ""))
			case llms.ToolCallResponse:
				said.WriteString(p.Content)
			default:
				fmt.Fprint(&said, p)
			}
		}
	}
	key := sha256.Sum256([]byte(said.String()))
	ctx = middleware.WithInfo(ctx, middleware.Info{Run: k.run, QueryID: fmt.Sprintf("%s/%x", k.task, key[:8])})
	return k.Router.GenerateContent(ctx, messages, o...)
}

// play runs the tasks under a policy, and returns its steps and the share of successful runs.
func (s *stage) play(t *testing.T, text, name string) (steps []*sdk.Trace, right float64) {
	t.Helper()
	p, err := policies.Parse(filepath.Join(t.TempDir(), "policy.hcl"), []byte(text), policies.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Models {
		p.Models[i].Provider = "cast"
	}
	var mu sync.Mutex
	providers := map[string]middleware.OpenClient{"cast": s.cast.open}
	o := router.Options{Seed: 1, Logger: hclog.NewNullLogger(), Providers: providers, Traces: func(_ context.Context, trace *sdk.Trace) {
		mu.Lock()
		defer mu.Unlock()
		steps = append(steps, trace)
	}}
	model, err := router.New(t.Context(), p, full.Complete(o))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range s.tasks {
		var asked llms.Model = keyed{model, task.ID, task.ID + "/" + name}
		if s.anonymous {
			asked = model
		}
		ok, err := s.agent.Run(t.Context(), asked, task)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			right += 1 / float64(len(s.tasks))
		}
	}
	if err := model.Close(); err != nil {
		t.Fatal(err)
	}
	return steps, right
}

// planned returns the plan for a policy from steps.
func planned(t *testing.T, policy string, steps []*sdk.Trace) *forecast.Forecast {
	t.Helper()
	p, err := policies.Parse("policy.hcl", []byte(policy), policies.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w := &forecast.Traces{Seed: 1}
	for _, s := range steps {
		if s.Mode == middleware.ShadowAlternative {
			w.Shadows = append(w.Shadows, s)
		} else {
			w.Steps = append(w.Steps, s)
		}
	}
	f, err := forecast.New(t.Context(), p, w, forecast.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// The plan for two cheap models before a large one, from steps recorded in any of the documented ways, covers what
// then happens.
func TestPlansOfAgreementCoverWhatFollows(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes under the race detector")
	}
	seeds, n := 2, 30
	if os.Getenv("STEPFALL_ATTACKS") == "all" {
		seeds, n = 6, 60 // of 20, each way covers 18 to 20
	}
	policy := strings.ReplaceAll(agreeing+hard, "\n  served", "\n  max_output_tokens = 8192\n  served")
	models := make([]string, 3)
	for i, block := range strings.SplitAfter(policy, "}\n")[:3] {
		models[i] = block + "strategy \"route\" {\n  worth_usd = 1\n}\n"
	}
	for name, record := range map[string]func(*testing.T, *stage) []*sdk.Trace{
		"observed": func(t *testing.T, s *stage) []*sdk.Trace {
			steps, _ := s.play(t, "mode = \"observe\"\nbaseline = \"large\"\n"+policy, "observed")
			return steps
		},
		"shadowed": func(t *testing.T, s *stage) []*sdk.Trace {
			steps, _ := s.play(t, shadowing+policy, "shadowed")
			return steps
		},
		"some shadowed": func(t *testing.T, s *stage) []*sdk.Trace {
			steps, _ := s.play(t, strings.Replace(shadowing, "share = 1", "share = 0.3", 1)+policy, "shadowed")
			return steps
		},
		"pinned": func(t *testing.T, s *stage) (steps []*sdk.Trace) {
			for i, text := range models {
				more, _ := s.play(t, text, fmt.Sprint("pinned", i))
				steps = append(steps, more...)
			}
			return steps
		},
		"collected": func(t *testing.T, s *stage) (steps []*sdk.Trace) {
			for i, text := range append(slices.Clone(models), policy) {
				more, _ := s.play(t, text, fmt.Sprint("pinned", i))
				steps = append(steps, more...)
			}
			return steps
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			if slices.Contains([]string{"shadowed", "collected"}, name) && os.Getenv("STEPFALL_ATTACKS") != "all" {
				t.Skip("STEPFALL_ATTACKS is not all: shadowed less often, and pinned, are the same with less to go by")
			}
			t.Parallel()
			covered, z, width := 0, 0.0, 0.0
			for seed := range seeds {
				s := newStage(OrderDesk(n), n, seed, []float64{-0.4, 0, 0.4}[seed%3])
				live, right := s.play(t, policy, "live")
				usd, large := 0.0, 0.0
				for _, step := range live {
					usd += step.CostUSD / float64(len(live))
					for _, c := range step.Calls {
						if c.Model == "large" {
							large += 1 / float64(len(live))
						}
					}
				}
				f := planned(t, policy, record(t, s))
				ran := f.Models[2]
				off := (f.CostUSD - usd) / f.CostStdError
				if math.Abs(off) <= 2 && math.Abs(ran.Ran-large) <= 2*ran.RanStdError+1e-9 {
					covered++
				}
				z, width = z+off/float64(seeds), width+2*f.CostStdError/usd/float64(seeds)
				t.Logf("%d: %.0f %% right; %.6f USD with large for %.1f %%; plan: %.6f ± %.6f, %.1f ± %.1f %%", seed, 100*right, usd, 100*large, f.CostUSD, 2*f.CostStdError, 100*ran.Ran, 200*ran.RanStdError)
			}
			t.Logf("%d of %d covered; off by %.2f on average, ± %.0f %%", covered, seeds, z, 100*width)
			if covered < seeds-1 {
				t.Errorf("%d of %d plans cover what follows", covered, seeds)
			}
		})
	}
}

// The plan from a policy's own traces covers the cost of as many further runs, whether or not the program names its
// runs, and even where another process would doubt other tools. Without doubts it is what was paid.
func TestPlansFromOwnTracesCoverFurtherRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes under the race detector")
	}
	draws, n := 4, 40
	if os.Getenv("STEPFALL_ATTACKS") == "all" {
		draws = 24
	}
	paid := func(steps []*sdk.Trace) (usd float64) {
		for _, s := range steps {
			usd += s.CostUSD / float64(len(steps))
		}
		return usd
	}
	for name, policy := range map[string]string{
		"believing": agreeing + hard,
		"doubting":  strings.Replace(agreeing, "plugin = \"agreement\"", "plugin = \"agreement\"\n  doubt_up_to = 0.55", 1) + hard,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			covered, ratio := 0, 0.0
			for seed := range draws {
				s := newStage(OrderDesk(2*n), 2*n, seed, 0)
				s.anonymous = seed%2 == 1
				all := slices.Clone(s.tasks)
				rand.New(rand.NewPCG(uint64(seed), 3)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
				s.tasks = all[:n]
				first, _ := s.play(t, policy, "first")
				s.tasks = all[n:]
				further, _ := s.play(t, policy, "further")
				f, usd := planned(t, policy, first), paid(further)
				if own := paid(first); name == "believing" && math.Abs(f.CostUSD/own-1) > 1e-9 {
					t.Errorf("draw %d: %.6f USD were paid, and the plan says %.6f", seed, own, f.CostUSD)
				}
				if low, high := forecast.RepeatInterval(f.CostUSD, f.CostStdError); low <= usd && usd <= high {
					covered++
				}
				ratio += usd / f.CostUSD / float64(draws)
			}
			t.Logf("%d of %d covered; further runs cost %.2f times what was foretold", covered, draws, ratio)
			if covered < draws*9/10 || math.Abs(ratio-1) > 0.1 {
				t.Errorf("%d of %d plans cover what further runs cost, which is %.2f times as much", covered, draws, ratio)
			}
		})
	}
}

// The policy that stepfall policy init writes for agents saves at least 40 % with success within 2 points of always
// asking the large model, whichever steps models err in: the draws differ in where models err, and in how often, per
// kind of step.
func TestFirstPolicyOnOtherDraws(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes under the race detector")
	}
	draws, n := 2, 60
	b := open(t, 80)
	if os.Getenv("STEPFALL_ATTACKS") == "all" {
		draws, n = 20, 120 // of a hundred: -1.3 points at 54 %, and without the match block -2.6
	} else { // what is a process for each call is asked alike
		b.Agents = slices.DeleteFunc(b.Agents, func(a *Agent) bool { return a.Name == "files and shell" })
	}
	texts := [...]string{large + "strategy \"route\" {\n  worth_usd = 1\n}\n", agreeing, agreeing + hard}
	var mu sync.Mutex
	var usd, right [len(texts)]float64
	t.Run("draws", func(t *testing.T) {
		for seed := range draws {
			rng := rand.New(rand.NewPCG(uint64(seed+10), 7))
			for _, a := range b.Agents {
				s := newStage(a, n, seed+10, 0)
				for m := range s.cast.models {
					shift := 0.6*rng.Float64() - 0.3
					for k := range s.cast.models[m].Skill {
						s.cast.models[m].Skill[k] += shift + 0.3*rng.Float64() - 0.15
					}
				}
				t.Run(a.Name, func(t *testing.T) {
					t.Parallel()
					for i, text := range texts {
						steps, share := s.play(t, text, "draw")
						mu.Lock()
						right[i] += 100 * share / float64(draws*len(b.Agents))
						for _, step := range steps {
							usd[i] += step.CostUSD
						}
						mu.Unlock()
					}
				})
			}
		}
	})
	points, cost := right[2]-right[0], usd[2]/usd[0]
	t.Logf("large %.1f %% right; the pair %+.1f points at %.0f %% of the cost; with the large model for hard runs %+.1f at %.0f %%",
		right[0], right[1]-right[0], 100*usd[1]/usd[0], points, 100*cost)
	if points < -2 || cost > 0.6 || right[2] < right[1] {
		t.Errorf("%+.1f points at %.0f %% of the cost of always asking the large model; without the match block %+.1f", points, 100*cost, right[1]-right[0])
	}
}
