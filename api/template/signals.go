// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// ordinary are the signals of Linux but for the real-time ones.
const ordinary = "SIGABRT SIGALRM SIGBUS SIGCHLD SIGCLD SIGCONT SIGFPE SIGHUP SIGILL SIGINT SIGIO SIGIOT SIGKILL SIGPIPE SIGPOLL " +
	"SIGPROF SIGPWR SIGQUIT SIGSEGV SIGSTKFLT SIGSTOP SIGSYS SIGTERM SIGTRAP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGUSR1 SIGUSR2 SIGVTALRM " +
	"SIGWINCH SIGXCPU SIGXFSZ SIGRTMIN SIGRTMAX"

// Real-time signals are counted from both ends.
const (
	aboveRTMin = 15
	belowRTMax = 14
)

// StopSignals returns the signals by which the API server lets a container be stopped.
func StopSignals() []corev1.Signal {
	var all []corev1.Signal
	for name := range strings.FieldsSeq(ordinary) {
		all = append(all, corev1.Signal(name))
	}
	for i := range aboveRTMin {
		all = append(all, corev1.Signal(fmt.Sprintf("SIGRTMIN+%d", i+1)))
	}
	for i := range belowRTMax {
		all = append(all, corev1.Signal(fmt.Sprintf("SIGRTMAX-%d", i+1)))
	}
	return all
}
