// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeadmission

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// Words of the kubelet, and of containerd where the kubelet leaves it to the runtime.
// (kubelet lifecycle/predicate.go, lifecycle/handlers.go, kubelet_pods.go, userns_manager.go)
const (
	reasonGroupsPolicy = "SupplementalGroupsPolicyNotSupported"
	reasonFeature      = "PodFeatureUnsupported"
	reasonHandler      = "RuntimeHandlerUnknown"

	messageGroupsPolicy = "SupplementalGroupsPolicy=Strict is not supported in this node"
	messageUsers        = "can't set `spec.hostUsers: false`, runtime does not support user namespaces"
	messageHandlerUsers = "can't set `spec.hostUsers: false`, RuntimeClass handler %q does not support user namespaces"
	messageReadOnly     = "volume %q requested recursive read-only mode, but it is not supported by the runtime"
	messageHandler      = "no runtime for %q is configured"
)

// RuntimeFeatures are what a container runtime says it can do.
type RuntimeFeatures struct {
	// GroupsPolicy: it knows supplementalGroupsPolicy.
	GroupsPolicy bool
	// Handlers are those that runtime classes name, with "" for its default; empty if it
	// does not say.
	Handlers map[string]HandlerFeatures
}

// HandlerFeatures are what one handler can do.
type HandlerFeatures struct {
	// UserNamespaces, and mounts that are read-only in what is mounted below them.
	UserNamespaces, RecursiveReadOnly bool
}

// Features admits pods for which the container runtime has what they need.
type Features struct {
	// Runtime asks the runtime.
	Runtime func() (RuntimeFeatures, error)
	// Handler is the runtime handler of a pod's class.
	Handler func(*corev1.Pod) (string, error)
}

// Admit refuses a pod that needs what the runtime says it lacks. A runtime that does not
// answer has refused nothing: it is asked again by the start.
func (f *Features) Admit(pod *corev1.Pod) *plan.Refusal {
	if !needsFeatures(pod) {
		return nil
	}
	has, err := f.Runtime()
	if err != nil {
		return nil
	}
	if strictGroups(pod) && !has.GroupsPolicy {
		return &plan.Refusal{Reason: reasonGroupsPolicy, Message: messageGroupsPolicy}
	}
	name, err := f.Handler(pod)
	if err != nil {
		return nil // the start says so
	}
	return handlerRefusal(pod, name, has.Handlers)
}

// handlerRefusal is why a handler cannot run a pod.
func handlerRefusal(pod *corev1.Pod, name string, handlers map[string]HandlerFeatures) *plan.Refusal {
	handler, known := handlers[name]
	if !known && len(handlers) > 0 {
		return &plan.Refusal{Reason: reasonHandler, Message: fmt.Sprintf(messageHandler, name)}
	}
	if ownUsers(pod) && !handler.UserNamespaces {
		message := messageUsers
		if name != "" {
			message = fmt.Sprintf(messageHandlerUsers, name)
		}
		return &plan.Refusal{Reason: reasonFeature, Message: message}
	}
	if volume := recursiveReadOnly(pod); volume != "" && !handler.RecursiveReadOnly {
		return &plan.Refusal{Reason: reasonFeature, Message: fmt.Sprintf(messageReadOnly, volume)}
	}
	return nil
}

// needsFeatures is whether a pod asks for something that a runtime may lack.
func needsFeatures(pod *corev1.Pod) bool {
	class := pod.Spec.RuntimeClassName
	return strictGroups(pod) || ownUsers(pod) || recursiveReadOnly(pod) != "" || class != nil && *class != ""
}

func strictGroups(pod *corev1.Pod) bool {
	sc := pod.Spec.SecurityContext
	return sc != nil && sc.SupplementalGroupsPolicy != nil && *sc.SupplementalGroupsPolicy == corev1.SupplementalGroupsPolicyStrict
}

func ownUsers(pod *corev1.Pod) bool { return pod.Spec.HostUsers != nil && !*pod.Spec.HostUsers }

// recursiveReadOnly is the first volume that must be mounted so; "" if there is none.
func recursiveReadOnly(pod *corev1.Pod) string {
	for c := range podspec.InitAndMain(pod) {
		i := slices.IndexFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.RecursiveReadOnly != nil && *m.RecursiveReadOnly == corev1.RecursiveReadOnlyEnabled
		})
		if i >= 0 {
			return c.VolumeMounts[i].Name
		}
	}
	return ""
}
