// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/hack/localstack"
)

// journals is where every container finds the folder of its workload.
const journals = "/j"

func journalOf(name string) string { return journals + "/" + name + ".log" }

// pod is a spec with a grace period and its containers; the folder for journals
// is mounted into each.
func pod(grace int64, containers ...corev1.Container) corev1.PodSpec {
	spec := corev1.PodSpec{TerminationGracePeriodSeconds: ptr.To(grace)}
	for _, c := range containers {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "j", MountPath: journals})
		if c.RestartPolicy != nil && *c.RestartPolicy == restartMark {
			c.RestartPolicy = nil
			spec.InitContainers = append(spec.InitContainers, c)
		} else if ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways {
			spec.InitContainers = append(spec.InitContainers, c)
		} else {
			spec.Containers = append(spec.Containers, c)
		}
	}
	return spec
}

// restartMark marks an init container until pod has sorted it.
const restartMark corev1.ContainerRestartPolicy = "init"

func with(spec corev1.PodSpec, policy corev1.RestartPolicy) corev1.PodSpec {
	spec.RestartPolicy = policy
	return spec
}

// serve is a main container that keeps a journal. Its name begins with c.
func serve(name string, flags ...string) corev1.Container {
	return corev1.Container{
		Name: name, Image: localstack.ImageV1,
		Args: append([]string{"serve", "--log-file=" + journalOf(name)}, flags...),
	}
}

// command is a main container that runs commands of the test program.
func command(name string, words ...string) corev1.Container {
	return corev1.Container{Name: name, Image: localstack.ImageV1, Args: append([]string{"seq"}, words...)}
}

// initially makes an init container of c.
func initially(c corev1.Container) corev1.Container {
	c.RestartPolicy = ptr.To(restartMark)
	return c
}

// sidecar makes an init container of c that runs for good. Its name begins with s.
func sidecar(c corev1.Container) corev1.Container {
	c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	return c
}

func preStop(c corev1.Container, handler *corev1.LifecycleHandler) corev1.Container {
	c.Lifecycle = c.Lifecycle.DeepCopy()
	if c.Lifecycle == nil {
		c.Lifecycle = &corev1.Lifecycle{}
	}
	c.Lifecycle.PreStop = handler
	return c
}

func postStart(c corev1.Container, handler *corev1.LifecycleHandler) corev1.Container {
	var before *corev1.LifecycleHandler
	if c.Lifecycle != nil {
		before = c.Lifecycle.PreStop
	}
	c = preStop(c, before)
	c.Lifecycle.PostStart = handler
	return c
}

// sequence is a hook or probe that runs commands of the test program.
func sequence(words ...string) *corev1.ExecAction {
	return &corev1.ExecAction{Command: append([]string{localstack.ProgramPath, "seq"}, words...)}
}

func execute(words ...string) *corev1.LifecycleHandler {
	return &corev1.LifecycleHandler{Exec: sequence(words...)}
}

// marked is a hook that writes its begin and end into the container's journal.
func marked(name, hook string, d time.Duration, then ...string) *corev1.LifecycleHandler {
	words := []string{"append", journalOf(name), hook + " begin", ",", "sleep", d.String()}
	if len(then) > 0 {
		words = append(append(words, ","), then...)
	}
	return execute(append(words, ",", "append", journalOf(name), hook+" end")...)
}

// hookTime is how long a hook runs if it is not cut off.
func hookTime(h *corev1.LifecycleHandler) time.Duration {
	var total time.Duration
	if h.Sleep != nil {
		total += time.Duration(h.Sleep.Seconds) * time.Second
	}
	if h.Exec != nil {
		for i, word := range h.Exec.Command[1:] {
			if d, err := time.ParseDuration(word); err == nil && h.Exec.Command[i] == "sleep" {
				total += d
			}
		}
	}
	if h.HTTPGet != nil {
		if _, word, found := strings.Cut(h.HTTPGet.Path, "?sleep="); found {
			if d, err := time.ParseDuration(word); err == nil {
				total += d
			}
		}
	}
	return total
}

func sleeping(seconds int64) *corev1.LifecycleHandler {
	return &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: seconds}}
}

func calling(path string, port int) *corev1.LifecycleHandler {
	return &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt(port)}}
}

// probe looks every second, once the program has had time to start, and fails at
// the second failure.
func probe(handler corev1.ProbeHandler) *corev1.Probe {
	return &corev1.Probe{ProbeHandler: handler, InitialDelaySeconds: 2, PeriodSeconds: 1, FailureThreshold: 2, TimeoutSeconds: 2}
}

func httpProbe(path string) *corev1.Probe {
	return probe(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt(8080)}})
}

func tcpProbe() *corev1.Probe {
	return probe(corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt(8081)}})
}

func grpcProbe(service string) *corev1.Probe {
	return probe(corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 8082, Service: ptr.To(service)}})
}

func execProbe(words ...string) *corev1.Probe {
	return probe(corev1.ProbeHandler{Exec: sequence(words...)})
}

// servesAll listens for every kind of probe. It is healthy as long as its fail
// file does not exist, which each start removes.
func servesAll(name string, flags ...string) corev1.Container {
	fail := failFile(name)
	c := serve(name)
	c.Args = append([]string{"seq", "rm", fail, ",", "serve", "--log-file=" + journalOf(name),
		"--http=:8080", "--tcp=:8081", "--grpc=:8082", "--fail-file=" + fail}, flags...)
	return c
}

func failFile(name string) string { return journals + "/fail-" + name }

// resources is CPU in millicores and memory in MiB: what is asked for, and twice of
// each as the limit.
func resources(cpu, memory int64) corev1.ResourceRequirements {
	list := func(times int64) corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(cpu*times, resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(memory*times<<20, resource.BinarySI),
		}
	}
	return corev1.ResourceRequirements{Requests: list(1), Limits: list(2)}
}

// withResources gives a container resources, and says which of them may only be changed
// with a restart.
func withResources(c corev1.Container, r corev1.ResourceRequirements, restarting ...corev1.ResourceName) corev1.Container {
	c.Resources = r
	for _, name := range restarting {
		c.ResizePolicy = append(c.ResizePolicy, corev1.ContainerResizePolicy{ResourceName: name, RestartPolicy: corev1.RestartContainer})
	}
	return c
}
