// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/cri"
	"github.com/managedworkload/managedworkload/runtime/podworker"
	"github.com/managedworkload/managedworkload/runtime/static"
)

// runStatic runs a file of a NodeWorkload ns/n and returns its UID. published takes its statuses.
func runStatic(t *testing.T, published func(types.UID, *v1alpha1.NodeWorkloadStatus)) (*static.Source, types.UID) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "n.yaml")
	content := "apiVersion: managedworkload.dev/v1alpha1\nkind: NodeWorkload\nmetadata: {namespace: ns, name: 'n'}\n" +
		"spec: {template: {spec: {containers: [{name: c, image: i}]}}}\n"
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	running := make(chan types.UID, 1)
	s, err := static.New(static.Config{
		Dir: dir, StateDir: t.TempDir(), Node: "node", Log: logr.Discard(),
		Update: func(nw *template.Workload) { running <- nw.UID },
		Has:    func(types.UID) bool { return true }, Refused: func(message string) { t.Error(message) }, Published: published,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	select {
	case uid := <-running:
		return s, uid
	case <-time.After(30 * time.Second):
		t.Fatal("the file does not run")
		return nil, ""
	}
}

// A static workload and a NodeWorkload of the same namespace and name are two: each is asked
// about where it is from.
func TestLiveOfOneNameInAFileAndInTheAPI(t *testing.T) {
	source, uid := runStatic(t, nil)
	file := podworker.Identity{UID: uid, Namespace: identity.Namespace, Name: identity.Name}
	other := podworker.Identity{UID: "static-other", Namespace: identity.Namespace, Name: "other"}
	api := newFakeAPI(t, interceptor.Funcs{}, nodeWorkload())
	p := staticPublisher{Publisher: newPublisher(api, api, api), static: source}
	for _, id := range []podworker.Identity{file, identity} {
		if nw, err := p.Live(t.Context(), id); err != nil || nw.UID != id.UID {
			t.Errorf("of %s: %v, error %v", id.UID, nw, err)
		}
	}
	if nw, err := p.Live(t.Context(), other); !errors.Is(err, podworker.ErrGone) {
		t.Errorf("a static workload that is gone: %v, error %v", nw, err)
	}
}

// hung is an API server that does not answer.
type hung struct{ podworker.Publisher }

func (hung) Publish(ctx context.Context, _ podworker.Identity, _ *v1alpha1.NodeWorkloadStatus) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	<-ctx.Done()
	return ctx.Err()
}

// A static workload does not wait for the API server: its status is on the node at once.
func TestTheStatusOfAStaticWorkloadDoesNotWaitForTheAPIServer(t *testing.T) {
	shown := &mirrors{}
	source, uid := runStatic(t, shown.statuses.offer)
	synctest.Test(t, func(t *testing.T) {
		p := staticPublisher{hung{}, source}
		begun := time.Now()
		if err := p.Publish(t.Context(), podworker.Identity{UID: uid}, &v1alpha1.NodeWorkloadStatus{Phase: corev1.PodRunning}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("the status was kept on the node after %v", took)
		}
	})
	if got := source.List()[0].Status.Phase; got != corev1.PodRunning {
		t.Errorf("phase %q on the node", got)
	}
	if latest := shown.statuses.take(uid); latest == nil || latest.Phase != corev1.PodRunning {
		t.Errorf("its mirror is shown %v", latest)
	}
}

// A change of a file ends nothing while nothing may start: before the runtime was seen, and while it has pods that the shim does not manage.
func TestAChangeOfAFileWaitsUntilStartsAreAllowed(t *testing.T) {
	r := &fakeCRI{events: true, pods: []cri.Pod{{UID: "kubelets", Namespace: "ns", Name: "other"}}}
	o, _ := newOverseer(t, r)
	s := &shim{overseer: o}
	try := s.tryStatic(&corev1.Pod{}, "static-runs", func(*corev1.Pod) string { return "no such profile" })
	for _, want := range []string{"the container runtime has not answered", v1alpha1.ReasonForeignPods, "no such profile"} {
		if err := try(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("tried: error %v, want %q", err, want)
		}
		o.look(t.Context())
		r.set(func() { r.pods = nil }) // at the look after
	}
}
