// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/cli/terminal"
)

// removeTimeout bounds the removal of the request of a dry run, also after an interruption.
const removeTimeout = 10 * time.Second

// kill makes a KillRequest and follows it.
type kill struct {
	*cluster
	*killOptions
	request *v1alpha1.KillRequest
	p       *terminal.Printer
	out     io.Writer
}

func (k *kill) run(ctx context.Context) (err error) {
	if err := k.Create(ctx, k.request, client.FieldOwner(defaultFieldManager)); err != nil {
		return err
	}
	if k.dryRun {
		defer func() { err = errors.Join(err, k.remove(ctx)) }()
	} else {
		k.say("killrequest.managedworkload.dev/%s created\n", k.request.Name)
	}
	if k.request.Spec.Action == v1alpha1.RequestStop && !k.dryRun {
		k.say("What it stops stays so until: kubectl mw release %s -n %s\n", k.request.Name, k.request.Namespace)
	}
	if !k.wait && !k.dryRun {
		return errors.Join(k.print(), k.p.Err())
	}
	if k.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, k.timeout)
		defer cancel()
	}
	return k.follow(ctx)
}

// follow waits for the end, and turns it into the exit code.
func (k *kill) follow(ctx context.Context) error {
	err := k.await(ctx)
	timedOut := errors.Is(err, context.DeadlineExceeded)
	if err != nil && !timedOut {
		return err
	}
	st := &k.request.Status
	for i := range st.NodeStates {
		k.sayNode(&st.NodeStates[i])
	}
	if more := int(st.Nodes) - len(st.NodeStates); more > 0 {
		k.say("and %d nodes more\n", more)
	}
	if err := errors.Join(k.print(), k.p.Err()); err != nil {
		return err
	}
	switch {
	case timedOut && k.output == "" && k.dryRun:
		return errNo{fmt.Sprintf("error: timed out after %s", k.timeout)}
	case timedOut && k.output == "":
		return errNo{fmt.Sprintf("error: timed out after %s: killrequest %q continues; kubectl delete kr %s ends it", k.timeout, k.request.Name, k.request.Name)}
	case timedOut, st.Phase == v1alpha1.RequestFailed, st.FailedNodes > 0:
		return errNo{}
	}
	return nil
}

// await watches the request until it is over.
func (k *kill) await(ctx context.Context) error {
	said := ""
	for fresh := false; ; {
		if !fresh {
			if err := k.Get(ctx, client.ObjectKeyFromObject(k.request), k.request); err != nil {
				return contextFirst(ctx, err)
			}
		}
		if st := &k.request.Status; st.Message != said && st.Phase != "" {
			said = st.Message
			k.say("%s: %s\n", st.Phase, st.Message)
		}
		if over(k.request) {
			return nil
		}
		var err error
		if fresh, err = k.change(ctx); err != nil {
			return contextFirst(ctx, err)
		}
	}
}

// over says that nothing more comes of a request.
func over(kr *v1alpha1.KillRequest) bool {
	switch kr.Status.Phase {
	case v1alpha1.RequestSucceeded, v1alpha1.RequestFailed, v1alpha1.RequestHeld:
		return true
	case v1alpha1.RequestPending, v1alpha1.RequestInProgress:
	}
	return false
}

// change waits until the request has another version than what was read, or may have; fresh
// reports that this is k.request now. One that is deleted when it is over is seen at its end.
func (k *kill) change(ctx context.Context) (fresh bool, err error) {
	w, err := k.Watch(ctx, &v1alpha1.KillRequestList{}, client.InNamespace(k.request.Namespace), client.MatchingFields{"metadata.name": k.request.Name},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: k.request.ResourceVersion}})
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("watch the KillRequest: %w", err)
	}
	defer w.Stop()
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case event, open := <-w.ResultChan():
		if !open || event.Type == watch.Error {
			return false, pause(ctx)
		}
		kr, ok := event.Object.(*v1alpha1.KillRequest)
		if !ok || event.Type == watch.Deleted && !over(kr) {
			return false, nil
		}
		k.request = kr
		return true, nil
	}
}

// remove takes the request of a dry run away.
func (k *kill) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	if err := client.IgnoreNotFound(k.Delete(ctx, k.request)); err != nil {
		return fmt.Errorf("delete the KillRequest %s of the dry run: %w", k.request.Name, err)
	}
	return nil
}

// say prints text, unless there is an output for programs.
func (k *kill) say(format string, args ...any) {
	if k.output == "" {
		k.p.Printf(format, args...)
	}
}

func (k *kill) sayNode(n *v1alpha1.RequestNodeState) {
	text := string(n.Phase)
	if n.Message != "" {
		text += ": " + n.Message
	}
	k.say("node %s: %s\n", n.NodeName, text)
	for i := range n.Containers {
		c := &n.Containers[i]
		text := string(c.Phase)
		if c.Message != "" {
			text = c.Message
		}
		k.say("  %s: %s\n", c.Name, text)
	}
}

func (k *kill) print() error {
	if k.output == "" {
		return nil
	}
	k.request.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("KillRequest"))
	if k.output == formatName {
		return (&printers.NamePrinter{ShortOutput: true}).PrintObj(k.request, k.out)
	}
	k.request.ManagedFields = nil
	return write(k.out, k.output, k.request)
}
