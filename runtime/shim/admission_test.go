// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/managedworkload/managedworkload/runtime/cri"
)

func TestAllowedUnsafeSysctlsFlag(t *testing.T) {
	o := Options{AllowedUnsafeSysctls: []string{"net.core.somaxconn", "vm.*"}}
	if err := o.completeSysctls(); err == nil || !strings.HasPrefix(err.Error(), `--allowed-unsafe-sysctls: sysctl "vm.*": `) {
		t.Errorf("error %v", err)
	}
	o.AllowedUnsafeSysctls = o.AllowedUnsafeSysctls[:1]
	if err := o.completeSysctls(); err != nil || o.sysctls == nil {
		t.Errorf("error %v", err)
	}
	if kernelVersion() == nil {
		t.Error("the kernel's version is not known")
	}
}

// The runtime is asked at most every few seconds, whether it answers or not, and its latest
// answer counts.
func TestRuntimeIsAskedForItsFeaturesNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, failure := 0, errors.New("away")
		f := &runtimeFeatures{ask: func() (cri.Features, error) {
			asked++
			return cri.Features{GroupsPolicy: true, Handlers: map[string]cri.HandlerFeatures{"kata": {UserNamespaces: true}}}, failure
		}}
		for range 3 {
			if _, err := f.latest(); !errors.Is(err, failure) || asked != 1 {
				t.Errorf("asked %d times, %v", asked, err)
			}
		}
		failure = nil
		time.Sleep(featuresAge)
		for range 3 {
			if got, err := f.latest(); err != nil || asked != 2 || !got.GroupsPolicy || !got.Handlers["kata"].UserNamespaces || got.Handlers["kata"].RecursiveReadOnly {
				t.Errorf("asked %d times, %+v, %v", asked, got, err)
			}
		}
	})
}
