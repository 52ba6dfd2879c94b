// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/objects"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// The versions are before every hash. One changes with the set of fields below
// or with their encoding, and hashes of two versions are never compared.
const (
	containerHashVersion = "v2"
	podHashVersion       = "v1"
)

// HashContainer returns a hash of the fields of a container that are fixed when
// it is created. What works without a restart is not in it: CPU and memory, probes,
// hooks, grace periods, pull, resize and restart policies. The template must have
// its defaults, or a default that is written out would look like a change.
//
// The kubelet hashes name and image only, because nothing else of a Pod's
// container may change. (kubelet container/helpers.go:HashContainer)
func HashContainer(c *corev1.Container) string {
	return hash(containerHashVersion, fixedFields(c))
}

func fixedFields(c *corev1.Container) corev1.Container {
	fixed := corev1.Container{
		Name:                     c.Name,
		Image:                    c.Image,
		Command:                  c.Command,
		Args:                     c.Args,
		WorkingDir:               c.WorkingDir,
		Ports:                    c.Ports,
		EnvFrom:                  c.EnvFrom,
		Env:                      c.Env,
		VolumeMounts:             c.VolumeMounts,
		VolumeDevices:            c.VolumeDevices,
		TerminationMessagePath:   c.TerminationMessagePath,
		TerminationMessagePolicy: c.TerminationMessagePolicy,
		SecurityContext:          c.SecurityContext,
		Stdin:                    c.Stdin,
		StdinOnce:                c.StdinOnce,
		TTY:                      c.TTY,
	}
	if c.Lifecycle != nil && c.Lifecycle.StopSignal != nil {
		fixed.Lifecycle = &corev1.Lifecycle{StopSignal: c.Lifecycle.StopSignal}
	}
	fixed.Resources.Limits = hugePages(c.Resources.Limits)
	return fixed
}

// hugePages are the limits of huge pages, which a running container keeps; nil if there
// are none.
func hugePages(limits corev1.ResourceList) corev1.ResourceList {
	var found corev1.ResourceList
	for name, limit := range limits {
		if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			if found == nil {
				found = corev1.ResourceList{}
			}
			found[name] = limit
		}
	}
	return found
}

// podDefinition is what is fixed when the sandbox is created.
type podDefinition struct {
	// Spec holds the pod's own fields.
	Spec corev1.PodSpec
	// HostPorts are set up with the sandbox's network.
	HostPorts []hostPort
	// Privileged: a runtime puts privileged containers in a privileged sandbox
	// only.
	Privileged bool
}

type hostPort struct {
	HostIP                  string
	HostPort, ContainerPort int32
	Protocol                corev1.Protocol
}

// HashPod returns a hash of what is fixed when the pod's sandbox is created:
// host namespaces, DNS, host names, volumes, security context, runtime class,
// pod-level resources, and of the containers the host ports and whether one is
// privileged; the service account where volumes show its tokens, since what runs must
// not become another account.
func HashPod(pod *corev1.Pod) string {
	s := &pod.Spec
	return hash(podHashVersion, podDefinition{
		Spec: corev1.PodSpec{
			Volumes:               volumesOfSandbox(s.Volumes),
			DNSPolicy:             s.DNSPolicy,
			DNSConfig:             s.DNSConfig,
			HostNetwork:           s.HostNetwork,
			HostPID:               s.HostPID,
			HostIPC:               s.HostIPC,
			HostUsers:             s.HostUsers,
			ShareProcessNamespace: s.ShareProcessNamespace,
			SecurityContext:       s.SecurityContext,
			Hostname:              s.Hostname,
			HostnameOverride:      s.HostnameOverride,
			Subdomain:             s.Subdomain,
			SetHostnameAsFQDN:     s.SetHostnameAsFQDN,
			HostAliases:           s.HostAliases,
			RuntimeClassName:      s.RuntimeClassName,
			Overhead:              s.Overhead,
			Resources:             s.Resources,
			ResourceClaims:        s.ResourceClaims,
			ServiceAccountName:    accountOf(s),
		},
		HostPorts:  hostPorts(pod),
		Privileged: podspec.HasPrivileged(pod),
	})
}

// accountOf is the service account of a pod with tokens, "" for others.
func accountOf(spec *corev1.PodSpec) string {
	if len(objects.Tokens(spec)) == 0 {
		return ""
	}
	return cmp.Or(spec.ServiceAccountName, "default")
}

// hostPorts returns the ports that the sandbox forwards from the node; on the
// host's network there is nothing to forward.
func hostPorts(pod *corev1.Pod) []hostPort {
	if pod.Spec.HostNetwork {
		return nil
	}
	var ports []hostPort
	for c := range podspec.InitAndMain(pod) {
		for _, p := range c.Ports {
			if p.HostPort > 0 {
				ports = append(ports, hostPort{p.HostIP, p.HostPort, p.ContainerPort, p.Protocol})
			}
		}
	}
	return ports
}

// hash of the JSON of a value: canonical, because maps are sorted and
// quantities normalised, and blind to fields a later API adds unless they are
// set.
func hash(version string, v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		// API types always marshal. An unknown hash changes nothing.
		return ""
	}
	sum := sha256.Sum256(data)
	return version + ":" + hex.EncodeToString(sum[:12])
}
