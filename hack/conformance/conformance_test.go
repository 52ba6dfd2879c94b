// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"embed"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/managedworkload/managedworkload/hack/conformance/kubelet"
	"github.com/managedworkload/managedworkload/hack/conformance/shim"
	"github.com/managedworkload/managedworkload/hack/scenario"
)

var (
	seed   = flag.Uint64("seed", 1, "the seed of the first scenario")
	number = flag.Int("n", 2000, "how many scenarios to play")
	replay = flag.String("replay", "", "a file with the scenario to play instead")
	stopAt = flag.Int("stop-at", 3, "after how many differences to stop")
	shrink = flag.Bool("shrink", true, "make the scenario of a difference as small as possible")
	output = flag.String("output", ".", "the folder for scenarios that make a difference")
	trace  = flag.Bool("trace", false, "print all that both sides did")
	wire   = flag.Bool("grpc", false, "talk to the runtimes over gRPC instead of by calls of its handlers")
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// TestScenarios plays random scenarios, or one from a file.
func TestScenarios(t *testing.T) {
	c := &campaign{declared: counts{}, seen: newCoverage()}
	if *replay != "" {
		c.play(newPair(t), readScenario(t, *replay))
		c.report(os.Stdout)
		if c.different > 0 {
			t.Error("the shim and the kubelet differ")
		}
		return
	}
	seeds := make(chan uint64)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		p := newPair(t)
		wg.Go(func() {
			for s := range seeds {
				c.play(p, scenario.Generate(s))
			}
		})
	}
	for i := range *number {
		if c.enough() {
			break
		}
		seeds <- *seed + uint64(i)
	}
	close(seeds)
	wg.Wait()
	c.report(os.Stdout)
	if c.different > 0 {
		t.Errorf("the shim and the kubelet differ in %d scenarios", c.different)
	}
}

func readScenario(t *testing.T, path string) *scenario.Scenario {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return decodeScenario(t, data)
}

func decodeScenario(t *testing.T, data []byte) *scenario.Scenario {
	t.Helper()
	s := &scenario.Scenario{}
	if err := json.Unmarshal(data, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// campaign is a number of scenarios.
type campaign struct {
	mu        sync.Mutex
	played    int
	different int
	replayed  int
	declared  counts
	seen      coverage
}

func (c *campaign) enough() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.different >= *stopAt
}

// play plays one scenario on both sides and tells about a difference.
func (c *campaign) play(p *pair, s *scenario.Scenario) {
	v := p.examine(s)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.played++
	c.declared.add(v.declared)
	c.seen.add(s, v)
	if v.difference == nil {
		return
	}
	c.different++
	if c.different > *stopAt {
		return
	}
	if *shrink {
		s, v = p.smallest(s, v)
	}
	fmt.Printf("\nseed %d: the shim and the kubelet differ, %s\n", s.Seed, v.difference)
	path := filepath.Join(*output, fmt.Sprintf("difference-%d.json", s.Seed))
	data, err := json.MarshalIndent(s, "", " ")
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		p.t.Error(err)
		return
	}
	fmt.Printf("the scenario is in %s, play it with -replay\n", path)
}

// verdict is what became of a scenario.
type verdict struct {
	difference *difference
	declared   counts
	shim       []step
	triggers   counts
}

// orders is how often a scenario is played in whose one step the kubelet removes init
// containers in an order that it draws: of two containers, all but one of 60,000 runs
// have drawn both orders by then.
const orders = 16

// examine plays a scenario on both sides. Where a removal hangs, the kubelet's order of
// removals shows in the times; the shim's has to be one of those that it draws.
func (p *pair) examine(s *scenario.Scenario) verdict {
	v := p.playBoth(s)
	for range orders {
		if v.difference == nil || !v.difference.removalHangs() {
			break
		}
		if again := p.playBoth(s); again.difference == nil {
			again.declared[PurgeOrder]++
			return again
		}
	}
	return v
}

func (p *pair) playBoth(s *scenario.Scenario) verdict {
	v := verdict{declared: counts{}, triggers: counts{}}
	kubeletSteps := bubble(p.t, s, nil, func(b *bubbleRun) agent {
		a, err := kubelet.New(b.ctx, b.runtime, b.conn, b.root, p.logs)
		b.check(err)
		return a
	})
	v.shim = bubble(p.t, s, kubeletSteps, func(b *bubbleRun) agent {
		a, err := shim.New(b.ctx, b.runtime, b.conn, b.root)
		b.check(err)
		b.after = func() {
			for _, rec := range a.Records() {
				v.triggers[string(rec.Trigger)]++
			}
			v.declared[KillOrder] += a.Reordered()
		}
		return a
	})
	if *trace {
		printTraces(os.Stdout, kubeletSteps, v.shim)
	}
	v.difference = compare(kubeletSteps, v.shim, v.declared)
	return v
}

// pair plays scenarios on both sides.
type pair struct {
	t    *testing.T
	logs *kubelet.Logs
}

func newPair(t *testing.T) *pair {
	t.Helper()
	logs, err := kubelet.NewLogs()
	if err != nil {
		t.Fatal(err)
	}
	return &pair{t: t, logs: logs}
}

//go:embed testdata/*.json
var known embed.FS

// TestKnownScenarios plays what made a difference once, several times each: the
// kubelet takes the kills of a sync from a map.
func TestKnownScenarios(t *testing.T) {
	files, err := known.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	p := newPair(t)
	for _, file := range slices.Repeat(files, 5) {
		data, err := known.ReadFile("testdata/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		if v := p.examine(decodeScenario(t, data)); v.difference != nil {
			t.Errorf("%s: the shim and the kubelet differ, %s", file.Name(), v.difference)
		}
	}
}
