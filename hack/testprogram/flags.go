// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// termination is what a stop signal does.
type termination struct {
	ignore bool
	delay  time.Duration
}

func (t *termination) String() string {
	switch {
	case t.ignore:
		return "ignore"
	case t.delay > 0:
		return "delay:" + t.delay.String()
	}
	return "exit"
}

// Set reads exit, ignore or delay:DURATION.
func (t *termination) Set(value string) error {
	*t = termination{}
	text, delayed := strings.CutPrefix(value, "delay:")
	switch {
	case value == "exit":
	case value == "ignore":
		t.ignore = true
	case delayed:
		delay, err := time.ParseDuration(text)
		if err != nil {
			return err
		}
		t.delay = delay
	default:
		return fmt.Errorf("want exit, ignore or delay:DURATION, not %q", value)
	}
	return nil
}

// signalList reads signal names with or without SIG, separated by commas.
type signalList []syscall.Signal

func (l *signalList) String() string {
	names := make([]string, 0, len(*l))
	for _, s := range *l {
		names = append(names, unix.SignalName(s))
	}
	return strings.Join(names, ",")
}

// Set replaces the list.
func (l *signalList) Set(value string) error {
	*l = nil
	for name := range strings.SplitSeq(value, ",") {
		sig, err := parseSignal(name)
		if err != nil {
			return err
		}
		*l = append(*l, sig)
	}
	return nil
}

func (l *signalList) has(sig syscall.Signal) bool { return slices.Contains(*l, sig) }

func parseSignal(name string) (syscall.Signal, error) {
	name = strings.ToUpper(name)
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	if sig := unix.SignalNum(name); sig != 0 {
		return sig, nil
	}
	// Go's table of names ends before the real-time signals.
	if n, found := strings.CutPrefix(name, "SIGRTMIN"); found {
		offset := 0
		if n != "" {
			var err error
			if offset, err = strconv.Atoi(n); err != nil {
				return 0, fmt.Errorf("signal %q: %w", name, err)
			}
		}
		return syscall.Signal(34 + offset), nil
	}
	return 0, fmt.Errorf("no signal named %q", name)
}

// codeList reads exit codes separated by commas.
type codeList []int

func (l *codeList) String() string {
	codes := make([]string, 0, len(*l))
	for _, c := range *l {
		codes = append(codes, strconv.Itoa(c))
	}
	return strings.Join(codes, ",")
}

// Set replaces the list.
func (l *codeList) Set(value string) error {
	*l = nil
	for text := range strings.SplitSeq(value, ",") {
		code, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		*l = append(*l, code)
	}
	return nil
}
