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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

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
