// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Command twin gives the same templates to a real kubelet, as Pods, and to the
// shim, as ManagedWorkloads, on one machine, and compares what the containers
// themselves saw, what the container runtimes saw and what the API says. Every
// difference that hack/twin/declared.go does not declare by name is an error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

type options struct {
	seed      uint64
	generated int
	parallel  int
	tries     int
	rounds    int
	only      string
	binary    string
	verbose   bool
	keep      string
}

func main() {
	var opts options
	flag.Uint64Var(&opts.seed, "seed", 1, "seed of the generated templates")
	flag.IntVar(&opts.generated, "generated", 70, "how many templates are generated")
	flag.IntVar(&opts.parallel, "parallel", 6, "how many pairs run at once")
	flag.IntVar(&opts.tries, "tries", 3, "how often a pair is run in which nothing differs but what hangs on a moment")
	flag.IntVar(&opts.rounds, "rounds", 15, "how many times start and deletion are measured; 0 leaves that out")
	flag.StringVar(&opts.only, "run", "", "run only the scenarios whose name matches this expression")
	flag.StringVar(&opts.binary, "binary", "", "managedworkload program; built from this tree when empty")
	flag.StringVar(&opts.keep, "keep", "", "folder that gets the logs of manager, shim and kubelet where something differs")
	flag.BoolVar(&opts.verbose, "v", false, "show what the API said, one after the other, where something differs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, opts); err != nil {
		fmt.Fprintln(os.Stderr, "twin:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, opts options) (err error) {
	scenarios, err := chosen(opts)
	if err != nil {
		return err
	}
	// Unix sockets live below: the path has to be short.
	dir, err := os.MkdirTemp("", "mw-twin-")
	if err != nil {
		return fmt.Errorf("make the state folder: %w", err)
	}
	stack, err := localstack.Start(ctx, localstack.Options{
		StateDir: dir, Progress: os.Stderr, Binary: opts.binary, WithKubelet: true, WithObjects: true,
		ShimArgs: []string{"--cluster-dns=" + localstack.KubeletClusterDNS},
	})
	if err != nil {
		return err
	}
	defer func() {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Minute)
		defer cancel()
		err = errors.Join(err, stack.Stop(cleanup))
	}()
	err = onStack(ctx, opts, stack, scenarios)
	if err != nil && opts.keep != "" {
		err = errors.Join(err, keepLogs(context.WithoutCancel(ctx), stack, opts.keep))
	}
	return err
}

// keepLogs copies into a folder what the programs wrote that decide.
func keepLogs(ctx context.Context, stack *localstack.Stack, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the folder for logs: %w", err)
	}
	if out, err := exec.CommandContext(ctx, "cp", stack.Manager.LogPath(), stack.Shim.LogPath(), stack.Kubelet.LogPath(), dir).CombinedOutput(); err != nil {
		return fmt.Errorf("keep the logs: %w: %s", err, out)
	}
	return nil
}

// chosen are the scenarios of this run.
func chosen(opts options) ([]scenario, error) {
	only, err := regexp.Compile(opts.only)
	if err != nil {
		return nil, err
	}
	var scenarios []scenario
	for _, s := range append(written(), generate(opts.seed, opts.generated)...) {
		if only.MatchString(s.name) {
			scenarios = append(scenarios, s)
		}
	}
	return scenarios, nil
}

// twin is both sides and what listens to them.
type twin struct {
	opts          options
	kube          client.WithWatch
	kubelet, shim side
	scratch       string
	events        *eventLags
	kubeletLives  *lives
	shimLives     *lives
}

func onStack(ctx context.Context, opts options, stack *localstack.Stack, scenarios []scenario) (err error) {
	kube, err := harness.Client(stack)
	if err != nil {
		return err
	}
	if err := prepareNamespace(ctx, kube); err != nil {
		return err
	}
	shimCRI, err := stack.CRI()
	if err != nil {
		return err
	}
	kubeletCRI, err := stack.KubeletCRI()
	if err != nil {
		return errors.Join(err, shimCRI.Close())
	}
	k := &kubeletSide{kube: kube, node: stack.KubeletNodeName(), cri: kubeletCRI, saw: newSightings()}
	s := &shimSide{kube: kube, node: stack.NodeName(), cri: shimCRI, saw: newSightings()}
	t := &twin{
		opts: opts, kube: kube, kubelet: k, shim: s, scratch: stack.Scratch(),
		events: newEventLags(), kubeletLives: newLives(), shimLives: newLives(),
	}
	listening, stop := context.WithCancel(ctx)
	var listeners sync.WaitGroup
	defer func() {
		stop()
		listeners.Wait()
		err = errors.Join(err, shimCRI.Close(), kubeletCRI.Close())
	}()
	for _, listen := range []struct {
		to  func(context.Context) error
		saw *sightings
	}{
		{k.watch, k.saw}, {s.watch, s.saw},
		{func(ctx context.Context) error { return t.events.watch(ctx, t.kube) }, k.saw},
		{func(ctx context.Context) error { return t.kubeletLives.listen(ctx, kubeletCRI) }, k.saw},
		{func(ctx context.Context) error { return t.shimLives.listen(ctx, shimCRI) }, s.saw},
	} {
		listeners.Go(func() {
			if err := listen.to(listening); err != nil {
				listen.saw.fail(err)
			}
		})
	}
	return t.all(ctx, scenarios)
}

// all runs the scenarios, several at once, and reports.
func (t *twin) all(ctx context.Context, scenarios []scenario) error {
	begin := time.Now()
	results := make([]result, len(scenarios))
	var group errgroup.Group
	group.SetLimit(max(t.opts.parallel, 1))
	var done atomic.Int64
	for i := range scenarios {
		group.Go(func() (err error) {
			results[i], err = t.untilSure(ctx, &scenarios[i])
			if n := done.Add(1); err == nil && n%10 == 0 {
				fmt.Fprintf(os.Stderr, "Compared %d of %d templates after %s\n", n, len(scenarios), time.Since(begin).Round(time.Second))
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	failed := report(os.Stdout, t.opts, results, time.Since(begin))
	if err := t.measure(ctx, os.Stdout); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d templates differ; again with: make twin SEED=%d", failed, t.opts.seed)
	}
	return nil
}

// result is the outcome of one scenario.
type result struct {
	scenario      *scenario
	kubelet, shim *record
	differences   []difference
	declared      map[string]int
	// chance is what differed in one run and not in the next.
	chance  []difference
	retried int
}

// untilSure runs a pair again when nothing differs but what hangs on a moment: such
// a difference counts when it is there each time. Any other counts at once. What
// was there once and not again is reported as chance.
func (t *twin) untilSure(ctx context.Context, s *scenario) (result, error) {
	var chance []difference
	var before []difference
	for try := 1; ; try++ {
		r, err := t.pair(ctx, s, try)
		if err != nil {
			return r, err
		}
		r.retried = try - 1
		r.chance = chance
		certain := slices.ContainsFunc(r.differences, func(d difference) bool { return !d.momentary() })
		if certain {
			return r, nil
		}
		if try > 1 {
			var once []difference
			r.differences, once = repeated(before, r.differences)
			chance = append(chance, once...)
			r.chance = chance
		}
		if len(r.differences) == 0 || try >= t.opts.tries {
			return r, nil
		}
		before = r.differences
	}
}

// momentary reports whether a difference hangs on a moment, which on a busy machine
// may be missed on either side: a time, or the word of a probe that one side sent
// just before or after its container was ready for it.
func (d difference) momentary() bool {
	return d.timed || (d.kubelet == "" || d.shim == "") && strings.HasPrefix(d.aspect, "event Warning Unhealthy ")
}

// repeated splits two runs' differences into those that both have, and the rest.
func repeated(before, now []difference) (both, once []difference) {
	for _, d := range now {
		if slices.ContainsFunc(before, d.sameAspect) {
			both = append(both, d)
		} else {
			once = append(once, d)
		}
	}
	for _, d := range before {
		if !slices.ContainsFunc(now, d.sameAspect) {
			once = append(once, d)
		}
	}
	return both, once
}

func (d difference) sameAspect(other difference) bool { return d.aspect == other.aspect }

// pair runs a scenario on both sides, started together, and compares.
func (t *twin) pair(ctx context.Context, s *scenario, try int) (result, error) {
	r := result{scenario: s}
	name := s.name
	if try > 1 {
		name = fmt.Sprintf("%s-try%d", s.name, try)
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, one := range []struct {
		side  side
		lives *lives
		rec   **record
	}{{t.kubelet, t.kubeletLives, &r.kubelet}, {t.shim, t.shimLives, &r.shim}} {
		group.Go(func() (err error) {
			p := &pairing{scenario: s, side: one.side, kube: t.kube, name: name, try: try, events: t.events, dir: filepath.Join(t.scratch, one.side.name(), name)}
			*one.rec, err = p.run(ctx, one.lives)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return r, err
	}
	r.differences, r.declared = undeclared(s, compare(r.kubelet, r.shim))
	return r, nil
}
