// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/contain"
)

const (
	resourceObjects = "nodeobjects"
	// A watch lasts shortest to shortest+jitter: shims come back one after another, and to
	// the replicas that there are then.
	shortest = 50 * time.Minute
	jitter   = 20 * time.Minute
	// enterTimeout is how long it may take to find out whether the caller may watch.
	enterTimeout = 15 * time.Second
	// checkInterval is how often it is asked again whether the caller may watch, and
	// uncheckedFor how long no answer may leave that open: it ends within 30 s of the last
	// good answer.
	checkInterval = 10 * time.Second
	uncheckedFor  = 15 * time.Second
)

// errEnded ends a watch after its time, as every API server does.
var errEnded = errors.New("the watch has ended")

// serveObjects answers a list, with nothing, and a watch.
func (h *handler) serveObjects(w http.ResponseWriter, req *http.Request, u user.Info) *metav1.Status {
	query := req.URL.Query()
	if watches, _ := strconv.ParseBool(query.Get("watch")); !watches {
		respond(w, http.StatusOK, &v1alpha1.NodeObjectList{
			TypeMeta: metav1.TypeMeta{Kind: "NodeObjectList", APIVersion: v1alpha1.GroupVersion.String()}, Items: []v1alpha1.NodeObject{},
		})
		return nil
	}
	node, err := selected(query)
	if err != nil {
		return statusOf(resourceObjects, "", err)
	}
	c, err := h.mayWatch(req.Context(), u, node)
	if err != nil {
		return statusOf(resourceObjects, node, err)
	}
	return h.watch(w, req, c, lifetime(query))
}

// mayWatch returns the caller if it may watch the objects of a node.
func (h *handler) mayWatch(ctx context.Context, u user.Info, node string) (*caller, error) {
	c, err := bound(u)
	if err != nil {
		return nil, err
	}
	if c.node != node {
		return nil, refuse("the token of %s is bound to node %s, not to %s", u.GetName(), c.node, node)
	}
	done, err := h.bounds.openings.take(c)
	if err != nil {
		return nil, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, enterTimeout)
	defer cancel()
	return c, h.gate.enter(ctx, c)
}

// selected is the node whose objects are watched.
func selected(query url.Values) (string, error) {
	if selector, err := fields.ParseSelector(query.Get("fieldSelector")); err == nil && query.Get("labelSelector") == "" {
		if node, exact := selector.RequiresExactMatch(metav1.ObjectNameField); exact && len(selector.Requirements()) == 1 && node != "" {
			return node, nil
		}
	}
	return "", apierrors.NewBadRequest("nodeobjects are watched for one node: the field selector must be metadata.name=NODE, and there is no label selector")
}

// lifetime is how long a watch lasts; the caller may ask for less.
func lifetime(query url.Values) time.Duration {
	lasts := shortest + rand.N(jitter) //nolint:gosec // nothing secret
	if seconds, err := strconv.ParseUint(query.Get("timeoutSeconds"), 10, 31); err == nil && seconds > 0 {
		lasts = min(lasts, time.Duration(seconds)*time.Second)
	}
	return lasts
}

// watch sends events until the caller leaves, may no more, or the watch's time is over.
func (h *handler) watch(w http.ResponseWriter, req *http.Request, c *caller, lasts time.Duration) *metav1.Status {
	ctx, stop := context.WithTimeoutCause(req.Context(), lasts, errEnded)
	defer stop()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	events, err := h.objects.Watch(ctx, c.node)
	if err != nil {
		return statusOf(resourceObjects, c.node, err)
	}
	defer events.Stop()
	defer h.check(ctx, end, c)()
	watchesGauge.Inc()
	defer watchesGauge.Dec()

	s := newStream(w, h.encodings, h.chunkTimeout)
	defer s.close()
	if err = s.open(); err == nil {
		err = s.send(ctx, events)
	}
	h.conclude(ctx, s, c, err)
	return nil
}

// check begins to ask again whether the caller may watch, and ends ctx when he may not. stop ends it.
func (h *handler) check(ctx context.Context, end context.CancelCauseFunc, c *caller) (stop func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := contain.Call(h.log, func() error { return h.keepChecking(ctx, c) }); err != nil {
			end(err)
		}
	}()
	return func() {
		end(nil)
		<-done
	}
}

// conclude says why a watch ends before its time.
func (h *handler) conclude(ctx context.Context, s *stream, c *caller, err error) {
	expected := err == nil
	for _, reason := range []error{errEnded, errLost, context.Canceled} {
		expected = expected || errors.Is(err, reason)
	}
	if !expected {
		status := statusOf(resourceObjects, c.node, err)
		h.log.Info("Ended a watch", "node", c.node, "user", c.user.GetName(), "reason", status.Message)
		if !s.broken {
			_ = errors.Join(s.write(context.WithoutCancel(ctx), watch.Error, status), s.flush()) // the caller may have left
		}
	}
	if s.broken {
		panic(http.ErrAbortHandler) // the rest of an event would be taken for another
	}
}

// keepChecking returns why the caller may watch no more, nil once ctx is done.
func (h *handler) keepChecking(ctx context.Context, c *caller) error {
	known := time.Now()
	for pause(ctx, checkInterval) {
		asking, cancel := context.WithTimeout(ctx, reviewTimeout)
		asked := time.Now()
		err := h.gate.still(asking, c)
		cancel()
		var refused refusal
		switch {
		case err == nil:
			known = asked
		case errors.As(err, &refused), time.Since(known) >= uncheckedFor:
			return err
		}
	}
	return nil
}
