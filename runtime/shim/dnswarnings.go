// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/poddir"
)

// podPreparer makes the directories and files of a pod.
type podPreparer interface {
	Prepare(ctx context.Context, pod *corev1.Pod) error
	DNS(pod *corev1.Pod) (poddir.DNSConfig, error)
}

// eventRecorder records events about a pod.
type eventRecorder interface {
	Event(pod *corev1.Pod, fieldPath, eventtype, reason, message string)
}

// maxDNSWarnings bounds what is remembered of one pod: a configuration gives a few.
const maxDNSWarnings = 16

// dnsWarnings prepares pods and warns of what is wrong with their resolver
// configuration: when a start first makes it, and again when the warning changes.
// (kubelet network/dns/dns.go:GetPodDNS, which warns at every sync: at every start
// such events would drown the others)
type dnsWarnings struct {
	pods   podPreparer
	events eventRecorder

	mu sync.Mutex
	// sent are the warnings that had their event, by pod.
	sent map[types.UID][]poddir.Warning
}

func newDNSWarnings(pods podPreparer, events eventRecorder) *dnsWarnings {
	return &dnsWarnings{pods: pods, events: events, sent: map[types.UID][]poddir.Warning{}}
}

// prepare implements executor.Config.Prepare.
func (w *dnsWarnings) prepare(ctx context.Context, pod *corev1.Pod) error {
	if err := w.pods.Prepare(ctx, pod); err != nil {
		return err
	}
	config, err := w.pods.DNS(pod)
	if err != nil {
		// The sandbox cannot be made without it, and its start reports that; what is
		// started in one that is there does not need it.
		return nil //nolint:nilerr // see above
	}
	for _, warning := range config.Warnings {
		if w.isNew(pod.UID, warning) {
			w.events.Event(pod, "", corev1.EventTypeWarning, warning.Reason, warning.Message)
		}
	}
	return nil
}

func (w *dnsWarnings) isNew(uid types.UID, warning poddir.Warning) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.Contains(w.sent[uid], warning) {
		return false
	}
	sent := append(w.sent[uid], warning)
	w.sent[uid] = sent[max(0, len(sent)-maxDNSWarnings):]
	return true
}

// forget drops what is remembered of a pod that is gone.
func (w *dnsWarnings) forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.sent, uid)
}
