// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/poddir"
)

// place is what makes a pod's place on the node.
type place interface {
	Prepare(ctx context.Context, pod *corev1.Pod) error
	DNS(pod *corev1.Pod) (poddir.DNSConfig, error)
}

// prepareTelling prepares pods and tells what is wrong with their resolver
// configuration: before each sync that starts something of them, for that is when
// it is made. (kubelet network/dns/dns.go:GetPodDNS, which tells it at every sync)
func prepareTelling(dirs place, events interface {
	Event(pod *corev1.Pod, fieldPath, eventtype, reason, message string)
}) func(context.Context, *corev1.Pod) error {
	return func(ctx context.Context, pod *corev1.Pod) error {
		if err := dirs.Prepare(ctx, pod); err != nil {
			return err
		}
		config, err := dirs.DNS(pod)
		if err != nil {
			// The sandbox cannot be made without it, and that is told then; what is
			// started in one that is there does not need it.
			return nil //nolint:nilerr // see above
		}
		for _, warning := range config.Warnings {
			events.Event(pod, "", corev1.EventTypeWarning, warning.Reason, warning.Message)
		}
		return nil
	}
}
