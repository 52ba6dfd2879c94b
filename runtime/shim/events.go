// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/managedworkload/managedworkload/api/printable"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/panics"
	"github.com/managedworkload/managedworkload/runtime/text"
)

// eventSource is the component named in events.
const eventSource = "managedworkload-shim"

// events writes events about NodeWorkloads, and about the node.
type events struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
	node        string
	// backlog has what the API server has not taken yet, nil without one.
	backlog *eventBacklog
	// ended is closed with the context of the process: what fails then fails
	// because of that and is not reported.
	ended <-chan struct{}
}

// eventBurst is how many events of one object may come at once. With the default
// of 25 the events about the end of a workload with sidecars that lost its sandbox
// would be dropped: each kill has an event Killed more than in the kubelet.
const eventBurst = 100

func newEvents(ctx context.Context, cfg *rest.Config, scheme *runtime.Scheme, node string, alone bool) (*events, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = apiTimeout
	api, err := typedcorev1.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make the client for events: %w", err)
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx), record.WithCorrelatorOptions(record.CorrelatorOptions{BurstSize: eventBurst}))
	if alone {
		log := logr.FromContextOrDiscard(ctx)
		broadcaster.StartEventWatcher(func(e *corev1.Event) {
			log.Info("Event", "object", e.InvolvedObject.Namespace+"/"+e.InvolvedObject.Name, "type", e.Type, "reason", e.Reason, "message", e.Message)
		})
		return newRecorder(ctx, broadcaster, scheme, node), nil
	}
	log := logr.FromContextOrDiscard(ctx)
	backlog := newEventBacklog(api, log)
	broadcaster.StartRecordingToSink(&lateSink{EventSink: &typedcorev1.EventSinkImpl{Interface: api.Events("")}, backlog: backlog, log: log, ended: ctx.Done()})
	e := newRecorder(ctx, broadcaster, scheme, node)
	e.backlog = backlog
	return e, nil
}

func newRecorder(ctx context.Context, broadcaster record.EventBroadcaster, scheme *runtime.Scheme, node string) *events {
	return &events{
		broadcaster: broadcaster,
		recorder:    broadcaster.NewRecorder(scheme, corev1.EventSource{Component: eventSource, Host: node}),
		node:        node,
		ended:       ctx.Done(),
	}
}

// lateBy is how long after it happened an event is written.
const lateBy = 300 * time.Millisecond

// lateSink writes events a moment later than they happen: a start or a deletion
// makes several at once, and the status that people wait for goes first. A panic is an
// error of the event: it would end the shim in the broadcaster's goroutine.
type lateSink struct {
	record.EventSink
	// backlog takes what the API server does not take; nil is allowed.
	backlog *eventBacklog
	log     logr.Logger
	ended   <-chan struct{}
}

// Create implements record.EventSink.
func (s *lateSink) Create(event *corev1.Event) (*corev1.Event, error) {
	return s.write(&lateEvent{event: event}, func() (*corev1.Event, error) { return s.EventSink.Create(event) })
}

// Patch implements record.EventSink.
func (s *lateSink) Patch(event *corev1.Event, data []byte) (*corev1.Event, error) {
	return s.write(&lateEvent{event: event, patch: data}, func() (*corev1.Event, error) { return s.EventSink.Patch(event, data) })
}

// write writes an event, or leaves it to the backlog where the API server takes none: the next ones
// do not wait for it.
func (s *lateSink) write(late *lateEvent, write func() (*corev1.Event, error)) (written *corev1.Event, err error) {
	if s.backlog != nil && !s.backlog.empty() {
		s.backlog.put(late)
		return late.event, nil
	}
	returned := false
	err = panics.Contain(s.log, "the write of an event", func() (err error) {
		s.wait(late.event)
		written, err = write()
		returned = true
		return err
	})
	if !returned {
		err = apierrors.NewInternalError(err) // client-go does not try one again that was rejected
	}
	if s.backlog != nil && returned && mayPass(err) {
		s.backlog.put(late)
		return late.event, nil
	}
	return written, err
}

// wait ends early where the event has waited already; never late, because its time is
// the wall clock's.
func (s *lateSink) wait(event *corev1.Event) {
	select {
	case <-s.ended:
	case <-time.After(min(time.Until(event.LastTimestamp.Add(lateBy)), lateBy)):
	}
}

// Event implements the Events of executor, probe and podworker: the pod stands
// for the NodeWorkload of its name and UID.
func (e *events) Event(pod *corev1.Pod, fieldPath, eventtype, reason, message string) {
	e.record(workloadOf(pod, fieldPath), eventtype, reason, message)
}

// AnnotatedEvent implements podworker.AnnotatedEvents.
func (e *events) AnnotatedEvent(pod *corev1.Pod, annotations map[string]string, eventtype, reason, message string) {
	select {
	case <-e.ended:
	default:
		e.recorder.AnnotatedEventf(workloadOf(pod, ""), annotations, eventtype, reason, "%s", bounded(message))
	}
}

// workloadOf is the NodeWorkload that a pod stands for.
func workloadOf(pod *corev1.Pod, fieldPath string) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(),
		Kind:       "NodeWorkload",
		Namespace:  pod.Namespace,
		Name:       pod.Name,
		UID:        pod.UID,
		FieldPath:  fieldPath,
	}
}

// warnNode writes a Warning event about the node.
func (e *events) warnNode(reason, message string) {
	e.record(&corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: e.node}, corev1.EventTypeWarning, reason, message)
}

// noteNode writes a Normal event about the node.
func (e *events) noteNode(reason, message string) {
	e.record(&corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: e.node}, corev1.EventTypeNormal, reason, message)
}

func (e *events) record(ref *corev1.ObjectReference, eventtype, reason, message string) {
	select {
	case <-e.ended:
	default:
		e.recorder.Event(ref, eventtype, reason, bounded(message))
	}
}

// maxEventMessage bounds an event's message, in bytes: what a container or a hook
// wrote may be part of it.
const maxEventMessage = 10 << 10

// bounded replaces what a terminal would take for a command, and cuts a text at a character.
func bounded(message string) string {
	message = printable.Text(message)
	if len(message) <= maxEventMessage {
		return message
	}
	return text.Cut(message, maxEventMessage) + "..."
}

// run writes what the API server has not taken at once, until the context is done.
func (e *events) run(ctx context.Context) error {
	if e.backlog == nil {
		return nil
	}
	return e.backlog.run(ctx)
}

// close waits for nothing: what is not written yet is lost.
func (e *events) close() { e.broadcaster.Shutdown() }
