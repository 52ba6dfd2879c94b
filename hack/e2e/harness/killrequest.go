// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// AwaitRequest waits until a KillRequest is as wanted, and reads it into kr.
func (e *Env) AwaitRequest(t *testing.T, kr *v1alpha1.KillRequest, what string, done func() bool) {
	t.Helper()
	key := client.ObjectKeyFromObject(kr)
	one := []client.ListOption{client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name}}
	read := func(ctx context.Context) error {
		now := &v1alpha1.KillRequest{}
		if err := e.Kube.Get(ctx, key, now); err != nil {
			return err
		}
		now.DeepCopyInto(kr)
		return nil
	}
	await(t, e, &v1alpha1.KillRequestList{}, one, kr, read, what, func(exists bool) bool { return exists && done() })
}

// AwaitRequestPhase waits until a KillRequest is in a phase, and fails as soon as it is over
// in another one.
func (e *Env) AwaitRequestPhase(t *testing.T, kr *v1alpha1.KillRequest, phase v1alpha1.RequestPhase) {
	t.Helper()
	e.AwaitRequest(t, kr, fmt.Sprintf("KillRequest %s is %s", kr.Name, phase), func() bool {
		return kr.Status.Phase == phase || kr.Status.CompletionTime != nil
	})
	if kr.Status.Phase != phase {
		t.Fatalf("KillRequest %s is not %s: %+v\n%s", kr.Name, phase, kr.Status, e.tails())
	}
}

// AwaitRequestEvent waits for an Event about a KillRequest: its type, reason and message are
// as given.
func (w *Workload) AwaitRequestEvent(kr *v1alpha1.KillRequest, kind, reason, message string) {
	w.t.Helper()
	event := w.AwaitEvent(reason, message)
	if event.InvolvedObject.Kind != "KillRequest" || event.InvolvedObject.UID != kr.UID || event.Type != kind || event.Message != message {
		w.t.Errorf("event %s %q about %s %s, want %s %q about KillRequest %s",
			event.Type, event.Message, event.InvolvedObject.Kind, event.InvolvedObject.Name, kind, message, kr.Name)
	}
}
