// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/managedworkload/managedworkload/runtime/cri"
	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/nodeadmission"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

const (
	// featuresAge is how long the runtime's answer counts, and featuresPatience bounds the
	// question.
	featuresAge      = 5 * time.Second
	featuresPatience = 2 * time.Second
)

// admission says which pods the node does not take. The handlers are in the kubelet's order,
// and the first refusal counts. (kubelet kubelet.go:NewMainKubelet)
func (s *shim) admission(ctx context.Context) func(*corev1.Pod) *plan.Refusal {
	ports := s.hostPorts()
	return nodeadmission.Handlers{
		func(pod *corev1.Pod) *plan.Refusal {
			if s.pool.Ran(pod.UID) {
				return nil // what changes may be what fills the disk
			}
			return s.pressure.Admit(pod)
		},
		s.options.sysctls.Admit,
		s.hostnames().Admit,
		s.features(ctx).Admit,
		ports.Admit,
		s.profiles().Admit,
		s.shutdown.Admit,
	}.Admit
}

func (s *shim) hostPorts() *nodeadmission.HostPorts {
	return &nodeadmission.HostPorts{Workloads: func() []nodeadmission.Workload {
		var all []nodeadmission.Workload
		for _, claim := range s.pool.Claims() {
			all = append(all, nodeadmission.Workload(claim))
		}
		return all
	}}
}

// unfit says why the node cannot run a pod now; "" if it can.
func (s *shim) unfit(ctx context.Context) func(*corev1.Pod) string {
	patience := hostfs.NewPatience(hostfs.DefaultPatience)
	seccomp := &nodeadmission.Seccomp{Root: s.options.seccompDir(), Stat: func(path string) (fs.FileInfo, error) {
		return hostfs.Ask(ctx, patience, path, func() (fs.FileInfo, error) {
			return hostfs.Root(s.options.HostRoot).Stat(path)
		}, func(fs.FileInfo) {})
	}}
	asked := s.hostPorts()
	asked.Asked = true // what another change is about to have
	admit := nodeadmission.Handlers{s.admission(ctx), asked.Admit, seccomp.Admit}.Admit
	exceeds := exceeds(s.options.bounds)
	return func(pod *corev1.Pod) string {
		if refusal := admit(pod); refusal != nil {
			return refusal.Reason + ": " + refusal.Message
		}
		return exceeds(pod)
	}
}

func (s *shim) hostnames() *nodeadmission.Hostnames {
	return &nodeadmission.Hostnames{Hostname: s.dirs.Hostname}
}

func (s *shim) profiles() *nodeadmission.AppArmor {
	return &nodeadmission.AppArmor{ReadFile: s.readKernelFile}
}

// features asks the runtime what it has.
func (s *shim) features(ctx context.Context) *nodeadmission.Features {
	asked := &runtimeFeatures{ask: func() (cri.Features, error) {
		ctx, cancel := context.WithTimeout(ctx, featuresPatience)
		defer cancel()
		return s.runtime.Features(ctx)
	}}
	return &nodeadmission.Features{Runtime: asked.latest, Handler: s.runtime.RuntimeHandler}
}

// readKernelFile reads a file of the kernel where the node has it, else where this process
// does: in a container either may lack file systems.
func (s *shim) readKernelFile(path string) ([]byte, error) {
	if data, err := hostfs.Root(s.options.HostRoot).ReadFile(path); err == nil {
		return data, nil
	}
	return hostfs.Root("").ReadFile(path)
}

// completeSysctls finds out which sysctls pods may set on this kernel.
func (o *Options) completeSysctls() error {
	var err error
	if o.sysctls, err = nodeadmission.NewSysctls(kernelVersion(), o.AllowedUnsafeSysctls); err != nil {
		return fmt.Errorf("--allowed-unsafe-sysctls: %w", err)
	}
	return nil
}

// kernelVersion is nil if it is not known. (kubelet pkg/util/kernel)
func kernelVersion() *version.Version {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return nil
	}
	v, err := version.ParseGeneric(unix.ByteSliceToString(name.Release[:]))
	if err != nil {
		return nil
	}
	return v
}

// runtimeFeatures remembers the runtime's answer for a while.
type runtimeFeatures struct {
	ask func() (cri.Features, error)

	mu    sync.Mutex
	known nodeadmission.RuntimeFeatures
	err   error
	asked time.Time
}

// latest is what the runtime has said last.
func (f *runtimeFeatures) latest() (nodeadmission.RuntimeFeatures, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.asked.IsZero() && time.Since(f.asked) < featuresAge {
		return f.known, f.err
	}
	answer, err := f.ask()
	f.known, f.err, f.asked = nodeadmission.RuntimeFeatures{GroupsPolicy: answer.GroupsPolicy, Handlers: map[string]nodeadmission.HandlerFeatures{}}, err, time.Now()
	for name, handler := range answer.Handlers {
		f.known.Handlers[name] = nodeadmission.HandlerFeatures(handler)
	}
	return f.known, f.err
}
