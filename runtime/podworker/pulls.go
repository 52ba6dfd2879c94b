// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/panics"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// pulls are the images that deliberate changes of one workload wait for. Each is pulled
// by a goroutine of its own, outside of the worker's steps, which it wakes.
type pulls struct {
	executor Executor
	log      logr.Logger
	wake     func()
	wg       sync.WaitGroup

	mu     sync.Mutex
	images map[plan.ImageKey]*pull
	// restartedAt is the restart that was requested last: it wants new pulls.
	restartedAt string
}

// pull is one image. It is guarded by the lock of pulls.
type pull struct {
	plan.Preparation
	// cancel ends the try under way; nil if there is none.
	cancel context.CancelFunc
	// again is when a try that failed is repeated.
	again time.Time
}

// pulling is what is known of an image that is waited for.
var pulling = plan.Preparation{Reason: plan.Reason{Reason: v1alpha1.ReasonPulling}}

// prepared returns what has become of the images.
func (p *pulls) prepared() map[plan.ImageKey]plan.Preparation {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.images) == 0 {
		return nil
	}
	prepared := make(map[plan.ImageKey]plan.Preparation, len(p.images))
	for key, image := range p.images {
		prepared[key] = image.Preparation
	}
	return prepared
}

// refs returns what the runtime calls the images that were prepared.
func (p *pulls) refs() map[plan.ImageKey]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	refs := map[plan.ImageKey]string{}
	for key, image := range p.images {
		if image.Ref != "" {
			refs[key] = image.Ref
		}
	}
	return refs
}

// renew has an image prepared once more, after a while, if it is still waited for.
func (p *pulls) renew(key plan.ImageKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.images[key] != nil {
		p.images[key] = &pull{Preparation: pulling, again: time.Now().Add(jitter(errorDelay))}
	}
}

// spent has the images pulled again, after a while, whose starts have failed and which
// each start pulls.
func (p *pulls) spent(pod *corev1.Pod, images []plan.ImageNeed, outcome plan.SyncOutcome) {
	for _, need := range images {
		c, failed := podspec.Container(pod, need.Container), outcome.Tried[need.Container] != (plan.Reason{})
		if c == nil {
			continue
		}
		key, named := need.Key(pod, c)
		if named && failed && need.Use == plan.ImagePulled && !key.PresenceMatters() {
			p.renew(key)
		}
	}
}

// keep gives up the images that are not in use any more, and all that were asked for
// before another restart was requested.
func (p *pulls) keep(inUse func() map[plan.ImageKey]bool, restartedAt string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	again := p.restartedAt != restartedAt
	p.restartedAt = restartedAt
	if len(p.images) == 0 {
		return
	}
	keys := inUse()
	for key, image := range p.images {
		if again || !keys[key] {
			image.giveUp()
			delete(p.images, key)
		}
	}
}

// want has images prepared that are not there, unless a try is under way or not due.
func (p *pulls) want(ctx context.Context, pod *corev1.Pod, waits []plan.ImageWait) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range waits {
		image := p.images[w.Image]
		if image == nil {
			image = &pull{}
			if p.images == nil {
				p.images = map[plan.ImageKey]*pull{}
			}
			p.images[w.Image] = image
		}
		if image.Ref == "" && image.cancel == nil && !time.Now().Before(image.again) {
			p.begin(ctx, pod, w, image)
		}
	}
}

// begin prepares an image; p.mu is held.
func (p *pulls) begin(ctx context.Context, pod *corev1.Pod, w plan.ImageWait, image *pull) {
	ctx, image.cancel = context.WithCancel(ctx)
	p.wg.Go(func() {
		_ = panics.Contain(p.log, "pulling an image", func() error {
			// A panic counts as a failure.
			got := plan.Preparation{Reason: plan.Reason{Reason: "ErrImagePull", Message: "panic while pulling the image"}}
			defer func() { p.end(image, got) }()
			var err error
			got, err = p.executor.PrepareImage(ctx, pod, w.Container, w.Image, func() { p.begins(image) })
			return err
		})
	})
}

// begins notes that a first pull begins. One that is repeated is still waited for with
// the reason before.
func (p *pulls) begins(image *pull) {
	p.mu.Lock()
	first := image.Reason == plan.Reason{}
	if first {
		image.Reason.Reason = v1alpha1.ReasonPulling
	}
	p.mu.Unlock()
	if first {
		p.wake()
	}
}

// end notes what became of a try. One that was given up changes nothing.
func (p *pulls) end(image *pull, got plan.Preparation) {
	p.mu.Lock()
	image.giveUp()
	image.Preparation = got
	image.again = time.Now().Add(jitter(errorDelay))
	p.mu.Unlock()
	p.wake()
}

// giveUp ends the try under way, if there is one.
func (i *pull) giveUp() {
	if i.cancel != nil {
		i.cancel()
		i.cancel = nil
	}
}

// untilRetry is when to look again for the sake of a failed try; false if there is none.
func (p *pulls) untilRetry(waits []plan.ImageWait) (time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var next time.Time
	for _, w := range waits {
		image := p.images[w.Image]
		if image != nil && image.Ref == "" && image.cancel == nil && (next.IsZero() || image.again.Before(next)) {
			next = image.again
		}
	}
	return max(0, time.Until(next)), !next.IsZero()
}

// stop gives all images up.
func (p *pulls) stop() {
	p.keep(func() map[plan.ImageKey]bool { return nil }, "")
}

// close gives all images up and returns when nothing of them is under way.
func (p *pulls) close() {
	p.stop()
	p.wg.Wait()
}
