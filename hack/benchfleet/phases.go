// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/hack/simnode"
	"github.com/managedworkload/managedworkload/hack/usage"
)

// run measures all phases, one after the other.
func (f *fleet) run(ctx context.Context) error {
	for _, p := range []struct {
		name string
		do   func(context.Context, *Phase) error
	}{
		{"start", f.startAll},
		{"objects to all nodes", f.deliver},
		{"another object", f.changeObject},
		{"idle", f.idle},
		{"steady reports", f.steady},
		{"storm of one workload", f.storm},
		{"roll-out", f.rollOut},
		{"bad image", f.badImage},
		{"restart of the manager", f.restartManager},
		{"restart of kube-apiserver", f.restartAPIServer},
		{"silence of half the nodes", f.silence},
	} {
		if p.name != "start" && !f.options.run.MatchString(p.name) || f.options.objects == 0 && strings.Contains(p.name, "object") {
			continue
		}
		if err := f.phase(ctx, p.name, p.do); err != nil {
			return err
		}
	}
	return nil
}

// startAll creates all workloads and waits until all are Ready everywhere.
func (f *fleet) startAll(ctx context.Context, p *Phase) error {
	begun := time.Now()
	if err := f.create(ctx, newWorkload(gaugeWorkload, labelFirst, 1<<10)); err != nil {
		return err
	}
	_, err := inParallel(ctx, f.options.workloads, func(ctx context.Context, i int) error {
		mw := newWorkload(workloadName(i), labelFleet, f.options.templateBytes)
		if i == 0 {
			f.mountObjects(mw)
		}
		return f.create(ctx, mw)
	})
	if err := errors.Join(err, f.awaitAll(ctx)); err != nil {
		return err
	}
	p.add("time to all Ready", time.Since(begun).Seconds(), "s")
	return f.settle(ctx)
}

// awaitAll waits until all workloads are Ready everywhere.
func (f *fleet) awaitAll(ctx context.Context) error {
	err := f.observer.await(ctx, gaugeWorkload, readyOn(1))
	for i := range f.options.workloads {
		err = errors.Join(err, f.observer.await(ctx, workloadName(i), readyOn(f.options.nodes)))
	}
	return err
}

func (f *fleet) idle(ctx context.Context, p *Phase) error {
	before, err := f.read(ctx)
	if err != nil {
		return err
	}
	if err := pause(ctx, f.options.window); err != nil {
		return err
	}
	after, err := f.read(ctx)
	for _, program := range programs {
		share := (after.cpu[program] - before.cpu[program]).Seconds() / f.options.window.Seconds()
		p.add(program+" at rest", 100*share, "% of a core")
		if program == "manager" {
			f.rest = share
		}
	}
	return errors.Join(err, f.touch(ctx, p))
}

// touch changes something of the first workload that needs nothing, some times.
func (f *fleet) touch(ctx context.Context, p *Phase) error {
	const times = 20
	spent, err := f.managerCPU(func() error {
		for i := range times {
			if err := f.annotate(ctx, fmt.Sprint(i)); err != nil {
				return err
			}
			if err := pause(ctx, 2*gaugePause); err != nil {
				return err
			}
		}
		return f.settle(ctx)
	})
	p.add("a reconcile with nothing to do", 1000*spent/times, "ms of the manager's CPU")
	return err
}

// managerCPU is how many seconds of CPU the manager takes more than at rest while
// something is done.
func (f *fleet) managerCPU(do func() error) (float64, error) {
	begun := time.Now()
	before, err := usage.CPUTime(f.stack.Manager.PID())
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	after, err := usage.CPUTime(f.stack.Manager.PID())
	return max(0, (after-before).Seconds()-f.rest*time.Since(begun).Seconds()), err
}

// during measures latencies while something is done.
func (f *fleet) during(ctx context.Context, p *Phase, gauges []gauge, do func(context.Context) error) error {
	measuring, stop := context.WithCancel(ctx)
	group := errgroup.Group{}
	group.Go(func() error {
		latency := f.measure(ctx, measuring, gauges)
		p.Latency = &latency
		return nil
	})
	err := do(ctx)
	stop()
	return errors.Join(err, group.Wait())
}

// steady has nodes report at a steady rate, each time another one of any workload.
func (f *fleet) steady(ctx context.Context, p *Phase) error {
	all := append(f.gauges(), gaugeOf(workloadName(0)))
	return f.during(ctx, p, all, func(ctx context.Context) error {
		spent, err := f.managerCPU(func() error {
			return f.report(ctx, p, f.options.rate, func() int { return rand.IntN(f.options.workloads) })
		})
		p.add("a report", 1000*spent/(f.options.window.Seconds()*float64(f.options.rate)), "ms of the manager's CPU, with those of the gauges")
		return err
	})
}

// storm has the nodes of the first workload report, and measures the others.
func (f *fleet) storm(ctx context.Context, p *Phase) error {
	return f.during(ctx, p, f.gauges(), func(ctx context.Context) error {
		return f.report(ctx, p, f.options.storm, func() int { return 0 })
	})
}

// report has containers restart, so many a second, but on the first node.
func (f *fleet) report(ctx context.Context, p *Phase, rate int, pick func() int) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	begun, made := time.Now(), 0
	for time.Since(begun) < f.options.window {
		for ; float64(made) < time.Since(begun).Seconds()*float64(rate) && f.options.nodes > 1; made++ {
			key := shareKey(pick(), 1+rand.IntN(f.options.nodes-1))
			f.shims.change(key, func(s *simnode.Share) { s.Crash(time.Now()) })
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
	p.add("reports", float64(made)/time.Since(begun).Seconds(), "/s")
	return nil
}

func shareKey(workload, node int) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: placement.NodeWorkloadName(workloadName(workload), nodeName(node))}
}

// rollOut changes the image of the first workload.
func (f *fleet) rollOut(ctx context.Context, p *Phase) error {
	return f.during(ctx, p, f.gauges(), func(ctx context.Context) error {
		begun := time.Now()
		if err := errors.Join(f.setImage(ctx, imageV2), f.observer.await(ctx, workloadName(0), readyOn(f.options.nodes))); err != nil {
			return err
		}
		took := time.Since(begun).Seconds()
		budget, err := f.budget()
		if err != nil {
			return err
		}
		least := float64((f.options.nodes+budget-1)/budget) * f.options.times.Change().Seconds()
		p.add("took", took, "s")
		p.add("nodes at once", float64(budget), "")
		p.add("least", least, "s")
		p.add("over the least", took/least, "x")
		return nil
	})
}

// badImage gives the first workload an image that no node can pull, and takes it back.
func (f *fleet) badImage(ctx context.Context, p *Phase) error {
	first := workloadName(0)
	kills := f.shims.kills()
	return f.during(ctx, p, f.gauges(), func(ctx context.Context) error {
		if err := errors.Join(f.setImage(ctx, simnode.BadImage), pause(ctx, f.options.badFor), f.setImage(ctx, imageV2)); err != nil {
			return err
		}
		reverted := time.Now()
		if err := errors.Join(f.observer.await(ctx, first, readyOn(f.options.nodes)), f.settle(ctx)); err != nil {
			return err
		}
		seen := f.observer.look(first)
		p.add("reached", float64(seen.mostBad), "nodes")
		p.add("last node after the revert", max(0, seen.lastBad.Sub(reverted).Seconds()), "s")
		p.add("all back after the revert", time.Since(reverted).Seconds(), "s")
		budget, errBudget := f.budget()
		unattended, err := f.unattended(ctx)
		p.add("reached without a revert", float64(unattended), "nodes")
		p.add("budget", float64(budget), "nodes")
		p.add("containers killed", float64(f.shims.kills()-kills), "")
		return errors.Join(errBudget, err)
	})
}

// unattended gives the first workload the bad image again, waits until no further node gets it,
// and takes it back. It returns how many nodes have it then.
func (f *fleet) unattended(ctx context.Context) (nodes int, err error) {
	first := workloadName(0)
	if err := f.setImage(ctx, simnode.BadImage); err != nil {
		return 0, err
	}
	for before := -1; nodes != before; {
		before = nodes
		if err := pause(ctx, f.options.window); err != nil {
			return 0, err
		}
		nodes = f.observer.look(first).bad
	}
	return nodes, errors.Join(f.setImage(ctx, imageV2), f.observer.await(ctx, first, readyOn(f.options.nodes)), f.settle(ctx))
}

func (f *fleet) restartManager(ctx context.Context, p *Phase) error {
	if err := f.stack.Manager.Stop(ctx); err != nil {
		return err
	}
	begun := time.Now()
	if err := f.stack.Manager.Start(ctx); err != nil {
		return err
	}
	p.add("to ready", time.Since(begun).Seconds(), "s")
	f.flip(ctx, gaugeOf(gaugeWorkload), true)
	p.add("to the first status", time.Since(begun).Seconds(), "s")
	f.flip(ctx, gaugeOf(gaugeWorkload), false)
	return f.settle(ctx)
}

// restartAPIServer kills kube-apiserver and starts it again.
func (f *fleet) restartAPIServer(ctx context.Context, p *Phase) error {
	if err := f.stack.APIServer.Kill(ctx); err != nil {
		return err
	}
	begun := time.Now()
	return f.during(ctx, p, f.gauges(), func(ctx context.Context) error {
		if err := f.stack.APIServer.Start(ctx); err != nil {
			return err
		}
		p.add("to ready", time.Since(begun).Seconds(), "s")
		if err := pause(ctx, f.options.window); err != nil {
			return err
		}
		return f.settle(ctx)
	})
}

// lastWords is how long the last renewal of a lease holds that falls silent.
const lastWords = 5 * time.Second

// silence lets the leases of half the nodes expire at once, and then renews them again.
func (f *fleet) silence(ctx context.Context, p *Phase) error {
	silent := int32(len(f.leases[1].nodes))
	return f.during(ctx, p, []gauge{gaugeOf(gaugeWorkload)}, func(ctx context.Context) error {
		if err := f.leases[1].silence(ctx, lastWords); err != nil {
			return err
		}
		begun := time.Now()
		for i := range f.options.workloads {
			if err := f.observer.await(ctx, workloadName(i), func(w *observed) bool { return w.mw.Status.UnreachableNodes == silent }); err != nil {
				return err
			}
		}
		p.add("all said as unreachable", (time.Since(begun) - lastWords).Seconds(), "s")
		if err := f.settle(ctx); err != nil {
			return err
		}
		begun = time.Now()
		f.leases[1].start(ctx)
		if err := f.awaitAll(ctx); err != nil {
			return err
		}
		p.add("all back", time.Since(begun).Seconds(), "s")
		return f.settle(ctx)
	})
}
