// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

// Workload is a ManagedWorkload of one test. What is about one node is about the stack's
// first, unless it comes from On.
type Workload struct {
	env       *Env
	t         *testing.T
	node      *localstack.Node
	Name      string
	Namespace string
	// Nodes is how many nodes its template matches: all of the stack unless a test says
	// otherwise.
	Nodes int
	// Dir is a folder of the node that belongs to this test alone; templates name
	// it as $DIR, and the containers keep their journals there.
	Dir string
}

// Apply creates a ManagedWorkload from the YAML of a Pod template's spec (or of
// a whole template, if it has a spec) in a namespace of its own. In the text,
// $DIR stands for the test's folder. The workload is deleted after the test.
func (e *Env) Apply(t *testing.T, template string) *Workload {
	t.Helper()
	w := e.New(t)
	w.Apply(template)
	return w
}

// New makes the namespace and the folder of a workload without applying it.
func (e *Env) New(t *testing.T) *Workload {
	t.Helper()
	name := nameOf(t)
	w := &Workload{env: e, t: t, node: e.Stack.Node, Name: "w", Namespace: name, Dir: filepath.Join(e.Stack.Scratch(), name), Nodes: len(e.Stack.Nodes)}
	if err := os.MkdirAll(w.Dir, 0o777); err != nil {
		t.Fatalf("make the test's folder: %v", err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := e.Kube.Create(t.Context(), namespace); err != nil {
		t.Fatalf("create namespace: %v", err)
	}
	t.Cleanup(w.cleanUp)
	if e.Stack.ControllerManager != nil {
		w.awaitDefaults()
	}
	return w
}

// On is the workload as it is on another node of the stack.
func (w *Workload) On(node *localstack.Node) *Workload {
	other := *w
	other.node = node
	return &other
}

// nameOf is the test's name as the name of a namespace.
func nameOf(t *testing.T) string {
	var b strings.Builder
	for _, r := range strings.ToLower(strings.TrimPrefix(t.Name(), "Test")) {
		if (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') {
			b.WriteRune(r)
		} else {
			b.WriteRune('-')
		}
	}
	name := b.String()
	if len(name) > 50 {
		name = name[:50]
	}
	return strings.Trim(name, "-") + fmt.Sprintf("-%x", time.Now().UnixNano()&0xffff)
}

// Parse reads the template as Apply does.
func (w *Workload) Parse(template string) corev1.PodTemplateSpec {
	w.t.Helper()
	text := strings.ReplaceAll(template, "$DIR", w.Dir)
	var raw map[string]any
	if err := yaml.Unmarshal([]byte(text), &raw); err != nil {
		w.t.Fatalf("parse template: %v", err)
	}
	var parsed corev1.PodTemplateSpec
	target := any(&parsed.Spec)
	if _, whole := raw["spec"]; whole {
		target = &parsed
	}
	if err := yaml.UnmarshalStrict([]byte(text), target); err != nil {
		w.t.Fatalf("parse template: %v", err)
	}
	return parsed
}

// Apply creates the ManagedWorkload, or changes its template.
func (w *Workload) Apply(template string) {
	w.t.Helper()
	w.ApplyTemplate(w.Parse(template))
}

// ApplyTemplate is Apply for a template that is parsed already.
func (w *Workload) ApplyTemplate(template corev1.PodTemplateSpec) {
	w.t.Helper()
	w.retry("apply", func(ctx context.Context) error {
		mw := &v1alpha1.ManagedWorkload{}
		err := w.env.Kube.Get(ctx, w.key(), mw)
		if apierrors.IsNotFound(err) {
			mw = &v1alpha1.ManagedWorkload{
				ObjectMeta: metav1.ObjectMeta{Name: w.Name, Namespace: w.Namespace},
				Spec:       v1alpha1.ManagedWorkloadSpec{Template: template},
			}
			return w.env.Kube.Create(ctx, mw)
		}
		if err != nil {
			return err
		}
		mw.Spec.Template = template
		return w.env.Kube.Update(ctx, mw)
	})
}

// Change edits the template of the ManagedWorkload.
func (w *Workload) Change(edit func(*corev1.PodTemplateSpec)) {
	w.t.Helper()
	w.ChangeObject(func(mw *v1alpha1.ManagedWorkload) { edit(&mw.Spec.Template) })
}

// ChangeObject edits the ManagedWorkload.
func (w *Workload) ChangeObject(edit func(*v1alpha1.ManagedWorkload)) {
	w.t.Helper()
	w.retry("change", func(ctx context.Context) error {
		mw := &v1alpha1.ManagedWorkload{}
		if err := w.env.Kube.Get(ctx, w.key(), mw); err != nil {
			return err
		}
		edit(mw)
		return w.env.Kube.Update(ctx, mw)
	})
}

// retry tries again on a conflict, as kubectl does.
func (w *Workload) retry(what string, do func(context.Context) error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), Timeout)
	defer cancel()
	err := do(ctx)
	for apierrors.IsConflict(err) {
		err = do(ctx)
	}
	if err != nil {
		w.t.Fatalf("%s the ManagedWorkload: %v", what, err)
	}
}

func (w *Workload) key() client.ObjectKey {
	return client.ObjectKey{Namespace: w.Namespace, Name: w.Name}
}

// Get reads the ManagedWorkload.
func (w *Workload) Get() *v1alpha1.ManagedWorkload {
	w.t.Helper()
	mw := &v1alpha1.ManagedWorkload{}
	if err := w.env.Kube.Get(w.t.Context(), w.key(), mw); err != nil {
		w.t.Fatalf("get ManagedWorkload: %v", err)
	}
	return mw
}

// onNode selects the NodeWorkload on the node: its name depends on the version
// of the manager that made it.
func (w *Workload) onNode() []client.ListOption {
	return []client.ListOption{client.InNamespace(w.Namespace), client.MatchingLabels{
		v1alpha1.LabelWorkload: placement.LabelValue(w.Name),
		v1alpha1.LabelNode:     placement.LabelValue(w.node.NodeName()),
	}}
}

// Node reads the NodeWorkload.
func (w *Workload) Node() *v1alpha1.NodeWorkload {
	w.t.Helper()
	nw, err := w.FindNode(w.t.Context())
	if err != nil {
		w.t.Fatalf("get NodeWorkload: %v", err)
	}
	return nw
}

// FindNode returns the NodeWorkload, or an error that says that there is none.
func (w *Workload) FindNode(ctx context.Context) (*v1alpha1.NodeWorkload, error) {
	list := &v1alpha1.NodeWorkloadList{}
	if err := w.env.Kube.List(ctx, list, w.onNode()...); err != nil {
		return nil, err
	}
	if len(list.Items) == 0 {
		return nil, apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("nodeworkloads").GroupResource(), w.Name+" on "+w.node.NodeName())
	}
	return &list.Items[0], nil
}

// Await waits until the NodeWorkload is as wanted.
func (w *Workload) Await(what string, done func(*v1alpha1.NodeWorkload) bool) *v1alpha1.NodeWorkload {
	w.t.Helper()
	nw := &v1alpha1.NodeWorkload{}
	read := func(ctx context.Context) error {
		found, err := w.FindNode(ctx)
		if err == nil {
			found.DeepCopyInto(nw)
		}
		return err
	}
	await(w.t, w.env, &v1alpha1.NodeWorkloadList{}, w.onNode(), nw, read, what, func(exists bool) bool { return exists && done(nw) })
	return nw
}

// AwaitNodeWorkload waits until a NodeWorkload that no ManagedWorkload has is as wanted.
func (e *Env) AwaitNodeWorkload(t *testing.T, key client.ObjectKey, what string, done func(nw *v1alpha1.NodeWorkload, exists bool) bool) *v1alpha1.NodeWorkload {
	t.Helper()
	nw := &v1alpha1.NodeWorkload{}
	one := []client.ListOption{client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name}}
	read := func(ctx context.Context) error { return e.Kube.Get(ctx, key, nw) }
	await(t, e, &v1alpha1.NodeWorkloadList{}, one, nw, read, what, func(exists bool) bool { return done(nw, exists) })
	return nw
}

// AwaitObject waits until the ManagedWorkload is as wanted.
func (w *Workload) AwaitObject(what string, done func(*v1alpha1.ManagedWorkload) bool) *v1alpha1.ManagedWorkload {
	w.t.Helper()
	mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}
	w.awaitObject(mw, what, func(exists bool) bool { return exists && done(mw) })
	return mw
}

// AwaitReady waits until all nodes run the current template and are ready.
func (w *Workload) AwaitReady() *v1alpha1.NodeWorkload {
	w.t.Helper()
	w.AwaitObject("it is ready", func(mw *v1alpha1.ManagedWorkload) bool {
		ready := meta.FindStatusCondition(mw.Status.Conditions, v1alpha1.ConditionReady)
		return mw.Status.ObservedGeneration == mw.Generation && ready != nil && ready.Status == metav1.ConditionTrue && int(mw.Status.ReadyNodes) == w.Nodes
	})
	return w.Node()
}

// AwaitKill waits for a kill that has ended.
func (w *Workload) AwaitKill(what string, match func(v1alpha1.KillRecord) bool) v1alpha1.KillRecord {
	w.t.Helper()
	var found v1alpha1.KillRecord
	w.Await("there is a kill record: "+what, func(nw *v1alpha1.NodeWorkload) bool {
		for _, kill := range nw.Status.Kills {
			if kill.Phase == v1alpha1.KillPhaseDone && match(kill) {
				found = kill
				return true
			}
		}
		return false
	})
	return found
}

// AwaitTrigger waits for a kill of a container by a trigger that has ended.
func (w *Workload) AwaitTrigger(container string, trigger v1alpha1.KillTrigger) v1alpha1.KillRecord {
	w.t.Helper()
	return w.AwaitKill(fmt.Sprintf("%s of %s", trigger, container), func(k v1alpha1.KillRecord) bool {
		return k.Container == container && k.Trigger == trigger
	})
}

// AwaitPhase waits until a kill of the container is under way in a phase.
func (w *Workload) AwaitPhase(container string, phase v1alpha1.KillPhase) v1alpha1.KillRecord {
	w.t.Helper()
	var found v1alpha1.KillRecord
	w.Await(fmt.Sprintf("the kill of %s is in phase %s", container, phase), func(nw *v1alpha1.NodeWorkload) bool {
		for _, kill := range nw.Status.Kills {
			if kill.Container == container && kill.Phase == phase {
				found = kill
				return true
			}
		}
		return false
	})
	return found
}

// Delete deletes the ManagedWorkload without waiting.
func (w *Workload) Delete(options ...client.DeleteOption) {
	w.t.Helper()
	if err := w.env.Kube.Delete(w.t.Context(), &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}, options...); err != nil {
		w.t.Fatalf("delete ManagedWorkload: %v", err)
	}
}

// AwaitGone waits until the ManagedWorkload is gone, which it is when its
// containers are.
func (w *Workload) AwaitGone() {
	w.t.Helper()
	mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}
	w.awaitObject(mw, "the ManagedWorkload is gone", func(exists bool) bool { return !exists })
}

func (w *Workload) awaitObject(mw *v1alpha1.ManagedWorkload, what string, done func(exists bool) bool) {
	w.t.Helper()
	one := []client.ListOption{client.InNamespace(mw.Namespace), client.MatchingFields{"metadata.name": mw.Name}}
	read := func(ctx context.Context) error { return w.env.Kube.Get(ctx, client.ObjectKeyFromObject(mw), mw) }
	await(w.t, w.env, &v1alpha1.ManagedWorkloadList{}, one, mw, read, what, done)
}

// DeleteAndCollect deletes the ManagedWorkload, waits until it is gone, and
// returns the termination's kill records as the watch saw them last.
func (w *Workload) DeleteAndCollect() []v1alpha1.KillRecord {
	w.t.Helper()
	w.Delete()
	return w.CollectUntilGone()
}

// CollectUntilGone waits until the NodeWorkload is gone and returns its last
// kill records.
func (w *Workload) CollectUntilGone() []v1alpha1.KillRecord {
	w.t.Helper()
	var kills []v1alpha1.KillRecord
	ctx, cancel := context.WithTimeout(w.t.Context(), Timeout)
	defer cancel()
	watcher, err := w.env.Kube.Watch(ctx, &v1alpha1.NodeWorkloadList{}, w.onNode()...)
	if err != nil {
		w.t.Fatalf("watch NodeWorkload: %v", err)
	}
	defer watcher.Stop()
	for {
		select {
		case <-ctx.Done():
			text, _ := yaml.Marshal(kills)
			w.t.Fatalf("the NodeWorkload is not gone: %v\nkills:\n%s\n%s", ctx.Err(), text, w.env.tails())
		case event, open := <-watcher.ResultChan():
			if !open {
				w.t.Fatalf("the watch ended before the NodeWorkload was gone")
			}
			nw, ok := event.Object.(*v1alpha1.NodeWorkload)
			if !ok {
				w.t.Fatalf("watch: %v", event.Object)
			}
			kills = nw.Status.Kills
			if event.Type == "DELETED" {
				w.AwaitGone()
				return kills
			}
		}
	}
}

// cleanUp removes what the test left; a NodeWorkload that was kept on purpose
// goes as well.
func (w *Workload) cleanUp() {
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	var errs []error
	zero := client.MergeFrom(&v1alpha1.ManagedWorkload{})
	mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name, Annotations: map[string]string{
		v1alpha1.AnnotationDeletionGracePeriodSeconds: "0",
	}}}
	errs = append(errs,
		client.IgnoreNotFound(w.env.Kube.Patch(ctx, mw.DeepCopy(), zero)),
		client.IgnoreNotFound(w.env.Kube.Delete(ctx, mw)),
		// Without the CRDs there is nothing.
		client.IgnoreNotFound(w.env.Kube.DeleteAllOf(ctx, &v1alpha1.NodeWorkload{}, client.InNamespace(w.Namespace))))
	for _, err := range errs {
		if err != nil {
			w.t.Errorf("clean up %s: %v", w.Namespace, err)
		}
	}
	list := &v1alpha1.NodeWorkloadList{}
	for ctx.Err() == nil {
		err := w.env.Kube.List(ctx, list, client.InNamespace(w.Namespace))
		if apierrors.IsNotFound(err) || err == nil && len(list.Items) == 0 {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	text, _ := yaml.Marshal(list.Items)
	w.t.Errorf("clean up %s: NodeWorkloads are still there\n%s\n%s", w.Namespace, text, w.env.tails())
}
