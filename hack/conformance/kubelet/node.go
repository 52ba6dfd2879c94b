// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	containertest "k8s.io/kubernetes/pkg/kubelet/container/testing"
	"k8s.io/kubernetes/pkg/kubelet/prober/results"

	"github.com/managedworkload/managedworkload/hack/fakecri"
)

// recorder records events in the runtime's trace.
type recorder struct{ runtime *fakecri.Runtime }

var _ record.EventRecorderLogger = recorder{}

func (r recorder) Event(object runtime.Object, eventtype, reason, message string) {
	fieldPath := ""
	if ref, ok := object.(*corev1.ObjectReference); ok {
		fieldPath = ref.FieldPath
	}
	r.runtime.Record("Event", ContainerOf(fieldPath), "%s %s %s %q", eventtype, reason, fieldPath, message)
}

func (r recorder) Eventf(object runtime.Object, eventtype, reason, message string, args ...any) {
	r.Event(object, eventtype, reason, fmt.Sprintf(message, args...))
}

func (r recorder) AnnotatedEventf(object runtime.Object, _ map[string]string, eventtype, reason, message string, args ...any) {
	r.Eventf(object, eventtype, reason, message, args...)
}

func (r recorder) WithLogger(klog.Logger) record.EventRecorderLogger { return r }

// ContainerOf returns the container that a field path names.
func ContainerOf(fieldPath string) string {
	if _, name, ok := strings.Cut(fieldPath, "{"); ok {
		return strings.TrimSuffix(name, "}")
	}
	return strings.TrimPrefix(fieldPath, kubecontainer.ImplicitContainerPrefix)
}

// verdicts are a probe's results; they come from the scenario.
type verdicts struct {
	byID map[kubecontainer.ContainerID]results.Result
}

func (v *verdicts) Get(id kubecontainer.ContainerID) (results.Result, bool) {
	r, ok := v.byID[id]
	return r, ok
}

func (v *verdicts) Set(id kubecontainer.ContainerID, r results.Result, _ *corev1.Pod) { v.byID[id] = r }
func (v *verdicts) Remove(id kubecontainer.ContainerID)                               { delete(v.byID, id) }
func (*verdicts) Updates() <-chan results.Update                                      { return nil }

var resultOf = map[string]results.Result{
	"success": results.Success, "failure": results.Failure, "unknown": results.Unknown,
}

// node stands for the rest of the kubelet: volumes, DNS, cgroups and what else a
// container gets that is not about when it starts and ends.
type node struct {
	containertest.FakeRuntimeHelper
	root string
}

// GenerateRunContainerOptions resolves no more of the environment than what is
// written there.
func (n *node) GenerateRunContainerOptions(_ context.Context, pod *corev1.Pod, c *corev1.Container, _ string, _ []string, _ kubecontainer.ImageVolumes) (*kubecontainer.RunContainerOptions, func(), error) {
	options := &kubecontainer.RunContainerOptions{}
	for _, v := range c.Env {
		options.Envs = append(options.Envs, kubecontainer.EnvVar{Name: v.Name, Value: v.Value})
	}
	if c.TerminationMessagePath != "" {
		options.PodContainerDir = filepath.Join(n.GetPodDir(pod.UID), "containers", c.Name)
		if err := os.MkdirAll(options.PodContainerDir, 0o700); err != nil {
			return nil, nil, fmt.Errorf("make the folder of container %s: %w", c.Name, err)
		}
	}
	return options, nil, nil
}

// GetOrCreateUserNamespaceMappings asks for none, as the kubelet does for a pod that
// does not want a user namespace. (userns/userns_manager.go)
func (*node) GetOrCreateUserNamespaceMappings(klog.Logger, *corev1.Pod, string) (*runtimeapi.UserNamespace, error) {
	return &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_NODE}, nil
}

// GeneratePodHostNameAndDomain implements kubecontainer.RuntimeHelper.
func (*node) GeneratePodHostNameAndDomain(_ klog.Logger, pod *corev1.Pod) (string, string, error) {
	return pod.Name, "", nil
}

func (n *node) GetPodDir(uid types.UID) string { return n.root + "/pods/" + string(uid) }

// pods says what the pod workers know.
type pods struct{ terminating, gone bool }

func (p *pods) IsPodTerminationRequested(types.UID) bool { return p.terminating }
func (p *pods) ShouldPodContentBeRemoved(types.UID) bool { return p.gone }
func (p *pods) ShouldPodRuntimeBeRemoved(types.UID) bool { return p.gone }

type noTimes struct{}

func (noTimes) RecordImageStartedPulling(types.UID)  {}
func (noTimes) RecordImageFinishedPulling(types.UID) {}

// files is the real file system but for the legacy links in /var/log/containers,
// which are this machine's own.
type files struct{ kubecontainer.RealOS }

const legacyLinks = "/var/log/containers"

func (files) Symlink(string, string) error { return nil }

func (f files) Remove(path string) error {
	if strings.HasPrefix(path, legacyLinks) {
		return os.ErrNotExist
	}
	return f.RealOS.Remove(path)
}

func (f files) Glob(pattern string) ([]string, error) {
	if strings.HasPrefix(pattern, legacyLinks) {
		return nil, nil
	}
	return f.RealOS.Glob(pattern)
}
