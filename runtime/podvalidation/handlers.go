// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podvalidation

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/template"
)

// probesAndHooks checks what only a container that keeps running has.
func (p *problems) probesAndHooks(pod pod, c *corev1.Container, path *field.Path) {
	p.probe(c.LivenessProbe, path.Child("livenessProbe"), true)
	p.probe(c.StartupProbe, path.Child("startupProbe"), true)
	p.probe(c.ReadinessProbe, path.Child("readinessProbe"), false)
	if c.Lifecycle != nil {
		p.lifecycle(pod, c.Lifecycle, path.Child("lifecycle"))
	}
}

// probe checks a probe; kills says whether the container is killed when it fails.
func (p *problems) probe(probe *corev1.Probe, path *field.Path, kills bool) {
	if probe == nil {
		return
	}
	p.handler(handler{exec: probe.Exec, httpGet: probe.HTTPGet, tcpSocket: probe.TCPSocket, grpc: probe.GRPC}, nil, path)
	notNegative(p, path.Child("initialDelaySeconds"), probe.InitialDelaySeconds)
	notNegative(p, path.Child("timeoutSeconds"), probe.TimeoutSeconds)
	notNegative(p, path.Child("periodSeconds"), probe.PeriodSeconds)
	notNegative(p, path.Child("failureThreshold"), probe.FailureThreshold)
	grace := path.Child("terminationGracePeriodSeconds")
	if !kills {
		notNegative(p, path.Child("successThreshold"), probe.SuccessThreshold)
		if probe.TerminationGracePeriodSeconds != nil {
			p.invalid(grace, *probe.TerminationGracePeriodSeconds, "must not be set for readinessProbes")
		}
		return
	}
	if probe.SuccessThreshold != 1 {
		p.invalid(path.Child("successThreshold"), probe.SuccessThreshold, "must be 1")
	}
	if s := probe.TerminationGracePeriodSeconds; s != nil && *s <= 0 {
		p.invalid(grace, *s, "must be greater than 0")
	}
}

func (p *problems) lifecycle(pod pod, l *corev1.Lifecycle, path *field.Path) {
	for _, hook := range []struct {
		name    string
		handler *corev1.LifecycleHandler
	}{{"postStart", l.PostStart}, {"preStop", l.PreStop}} {
		if h := hook.handler; h != nil {
			grace := ptr.Deref(pod.spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
			p.handler(handler{exec: h.Exec, httpGet: h.HTTPGet, tcpSocket: h.TCPSocket, sleep: h.Sleep}, &grace, path.Child(hook.name))
		}
	}
	if l.StopSignal == nil {
		return
	}
	if signals := template.StopSignals(); !slices.Contains(signals, *l.StopSignal) {
		p.add(field.NotSupported(path.Child("stopSignal"), *l.StopSignal, signals))
	}
}

// handler is what a probe or a hook does.
type handler struct {
	exec      *corev1.ExecAction
	httpGet   *corev1.HTTPGetAction
	tcpSocket *corev1.TCPSocketAction
	grpc      *corev1.GRPCAction
	sleep     *corev1.SleepAction
}

// handler checks that there is one action, and the action. grace is the grace period of the pod, for a hook.
func (p *problems) handler(h handler, grace *int64, path *field.Path) {
	found := 0
	next := func(name string) *field.Path {
		if found++; found > 1 {
			p.forbidden(path.Child(name), "may not specify more than 1 handler type")
		}
		return path.Child(name)
	}
	if h.exec != nil {
		if at := next("exec"); len(h.exec.Command) == 0 {
			p.add(field.Required(at.Child("command"), ""))
		}
	}
	if h.httpGet != nil {
		p.httpGet(h.httpGet, next("httpGet"))
	}
	if h.tcpSocket != nil {
		p.port(h.tcpSocket.Port, next("tcpSocket").Child("port"))
	}
	if h.grpc != nil {
		p.port(intstr.FromInt32(h.grpc.Port), next("grpc").Child("port"))
	}
	if h.sleep != nil {
		if at, s := next("sleep"), h.sleep.Seconds; s < 0 || s > *grace {
			p.invalid(at.Child("seconds"), s, fmt.Sprintf("must be non-negative and less than terminationGracePeriodSeconds (%d)", *grace))
		}
	}
	if found == 0 {
		p.add(field.Required(path, "must specify a handler type"))
	}
}

func (p *problems) httpGet(get *corev1.HTTPGetAction, path *field.Path) {
	p.required(path.Child("path"), get.Path)
	p.port(get.Port, path.Child("port"))
	optionalOneOf(p, path.Child("scheme"), &get.Scheme, corev1.URISchemeHTTP, corev1.URISchemeHTTPS)
	for i, header := range get.HTTPHeaders {
		p.invalid(path.Child("httpHeaders").Index(i).Child("name"), header.Name, validation.IsHTTPHeaderName(header.Name)...)
	}
}

func (p *problems) port(port intstr.IntOrString, path *field.Path) {
	if port.Type == intstr.String {
		p.invalid(path, port.StrVal, validation.IsValidPortName(port.StrVal)...)
		return
	}
	p.invalid(path, port.IntValue(), validation.IsValidPortNum(port.IntValue())...)
}
