// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/cri"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
	"github.com/managedworkload/managedworkload/runtime/podworker"
	"github.com/managedworkload/managedworkload/runtime/static"
)

// Reasons of events about the Node: a file is not accepted, or a workload cannot have a mirror. The manager has the
// second one too.
const (
	reasonStaticRefused = "StaticWorkloadRefused"
	reasonMirrorRefused = "StaticMirrorRefused"
)

// staticDir is where static workloads are kept.
func (o *Options) staticDir() string { return filepath.Join(o.StateDir, "static") }

// makeStatic makes what runs the workloads of --static-dir.
func (s *shim) makeStatic(log logr.Logger, publisher statusPublisher, unfit func(*corev1.Pod) string) (err error) {
	s.static, err = static.New(static.Config{
		Dir: s.options.StaticDir, StateDir: s.options.staticDir(), Node: s.options.NodeName,
		Update: func(nw *template.Workload) { s.pool.Update(nw) },
		Has:    func(uid types.UID) bool { return s.pool.Has(uid) },
		Try: func(nw *template.Workload, runs types.UID) func(context.Context) error {
			return s.tryStatic(template.Pod(nw), runs, unfit)
		},
		GaveUp: s.executor.Forget,
		Published: func(uid types.UID, st *v1alpha1.NodeWorkloadStatus) {
			if s.mirrors != nil {
				s.mirrors.statuses.offer(uid, st)
			}
		},
		Refused: func(message string) { s.events.warnNode(reasonStaticRefused, message) },
		Log:     log.WithName("static"),
	})
	if err != nil || s.alone {
		return err
	}
	s.mirrors = &mirrors{
		static: s.static, cached: s.mgr.GetCache(), node: s.options.NodeName, publisher: publisher,
		refused:  func(message string) { log.Info(message); s.events.warnNode(reasonMirrorRefused, message) },
		statuses: mirrorStatuses{news: make(chan struct{}, 1)},
		show: func(nw *template.Workload) {
			nw.Status = v1alpha1.NodeWorkloadStatus{} // its mirror has none
			s.pool.Update(nw)
		},
	}
	return nil
}

// tryStatic returns what sees to it that what the start of a static workload needs of this node is there: its images are
// pulled, and nothing else is made. What runs is the one that would end for it.
func (s *shim) tryStatic(pod *corev1.Pod, runs types.UID, unfit func(*corev1.Pod) string) func(context.Context) error {
	change := pod.DeepCopy()
	change.UID = runs // it has what runs has, such as host ports
	look := func(ctx context.Context) error {
		if err := s.overseer.usable.staticError(); err != nil {
			return err
		}
		if why := unfit(change); why != "" {
			return fmt.Errorf("the node cannot run it: %s", why)
		}
		return s.volumes.Ahead(ctx, pod)
	}
	pulled := map[plan.ImageKey]string{}
	return func(ctx context.Context) error {
		if err := look(ctx); err != nil {
			return err
		}
		for c := range podspec.InitAndMain(pod) {
			for _, image := range plan.ImageKeysOf(pod, c) {
				if err := s.pullStatic(ctx, pod, c, image, pulled); err != nil {
					return err
				}
			}
			if err := s.runtime.VerifyNonRoot(ctx, pod, c, pulled[plan.ImageKeyOf(c)]); err != nil {
				return err
			}
		}
		return look(ctx) // a pull takes a while
	}
}

// pullStatic sees to it that an image is there. One that each start pulls is pulled once.
func (s *shim) pullStatic(ctx context.Context, pod *corev1.Pod, c *corev1.Container, image plan.ImageKey, pulled map[plan.ImageKey]string) error {
	if pulled[image] != "" && !image.PresenceMatters() {
		return nil
	}
	got, err := s.executor.PrepareImage(ctx, pod, c.Name, image, func() {})
	if err != nil {
		return err
	}
	if got.Ref == "" {
		return fmt.Errorf("container %s: image %s: %s: %s", c.Name, image.Image, got.Reason.Reason, got.Reason.Message)
	}
	pulled[image] = got.Ref
	return nil
}

// staticPublisher keeps the objects of static workloads on the node, and leaves all others
// to the API server.
type staticPublisher struct {
	podworker.Publisher
	static *static.Source
}

// Publish implements podworker.Publisher.
func (p staticPublisher) Publish(ctx context.Context, id podworker.Identity, st *v1alpha1.NodeWorkloadStatus) error {
	if !v1alpha1.IsStatic(id.UID) {
		return p.Publisher.Publish(ctx, id, st)
	}
	return p.static.Publish(id.UID, st)
}

// Live implements podworker.Publisher. The API server may have an object of the name of a static
// workload: neither is an instance of the other.
func (p staticPublisher) Live(ctx context.Context, of podworker.Identity) (*template.Workload, error) {
	if !v1alpha1.IsStatic(of.UID) {
		return p.Publisher.Live(ctx, of)
	}
	nw := p.static.Live(types.NamespacedName{Namespace: of.Namespace, Name: of.Name})
	if nw == nil {
		return nil, podworker.ErrGone
	}
	return nw, nil
}

// Release implements podworker.Publisher.
func (p staticPublisher) Release(ctx context.Context, id podworker.Identity) error {
	if v1alpha1.IsStatic(id.UID) {
		return p.static.Release(id.UID)
	}
	return p.Publisher.Release(ctx, id)
}

// endStaticOrphans ends what came from files and is in neither a file nor what was kept of
// them: the state directory was lost. The API server knows nothing of it.
func (o *overseer) endStaticOrphans(ctx context.Context, pods []cri.Pod) {
	for _, p := range pods {
		if !p.Ours || !v1alpha1.IsStatic(p.UID) || o.knowsStatic(p.UID) {
			continue
		}
		recorded, err := o.runtime.RecordedPod(ctx, p.UID)
		if err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "Failed to restore an orphan from its labels; retrying", "uid", p.UID)
			continue
		}
		o.abandon(podworker.Identity{UID: p.UID, Namespace: p.Namespace, Name: p.Name}, recorded)
	}
}
