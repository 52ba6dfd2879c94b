// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// defaultPressureTransition is the kubelet's. (kubelet apis/config/v1beta1/defaults.go)
const defaultPressureTransition = 5 * time.Minute

// evictionOptions are the flags about a node that is short of memory, disk or process IDs, by
// the kubelet's names.
type evictionOptions struct {
	Hard, Soft, SoftGracePeriod, MinimumReclaim []string
	MaxPodGracePeriod                           int32
	TransitionPeriod                            time.Duration

	// thresholds are what the flags come to.
	thresholds []plan.Threshold
}

func (e *evictionOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&e.Hard, "eviction-hard", nil,
		"Thresholds, such as memory.available<1Gi, below which a workload is ended at once; with --register-node the kubelet's defaults unless given, "+
			"else none: a kubelet looks after the node. memory.available<0% is none")
	flags.StringSliceVar(&e.Soft, "eviction-soft", nil, "Thresholds, such as memory.available<1.5Gi, below which a workload is ended after a grace period")
	flags.StringSliceVar(&e.SoftGracePeriod, "eviction-soft-grace-period", nil,
		"For how long each soft threshold must be met before a workload is ended, such as memory.available=1m30s")
	flags.Int32Var(&e.MaxPodGracePeriod, "eviction-max-pod-grace-period", 0,
		"Longest grace period, in seconds, of a workload that is ended for a soft threshold; negative: its own")
	flags.StringSliceVar(&e.MinimumReclaim, "eviction-minimum-reclaim", nil,
		"What must be available above a threshold that was met before it counts as resolved, such as imagefs.available=2Gi")
	flags.DurationVar(&e.TransitionPeriod, "eviction-pressure-transition-period", defaultPressureTransition,
		"How long the node stays in a condition of pressure after it was last observed")
}

// complete parses the flags.
func (e *evictionOptions) complete(ownsNode bool) error {
	var flags plan.EvictionFlags
	var errs []error
	for _, f := range []struct {
		flag, separator string
		parts           []string
		into            *plan.ThresholdTexts
	}{
		{"--eviction-hard", "<", e.Hard, &flags.Hard},
		{"--eviction-soft", "<", e.Soft, &flags.Soft},
		{"--eviction-soft-grace-period", "=", e.SoftGracePeriod, &flags.SoftGracePeriod},
		{"--eviction-minimum-reclaim", "=", e.MinimumReclaim, &flags.MinimumReclaim},
	} {
		var err error
		*f.into, err = plan.SplitThresholds(f.flag, f.parts, f.separator)
		errs = append(errs, err)
	}
	if len(flags.Hard) == 0 && ownsNode {
		flags.Hard = plan.DefaultEvictionHard
	}
	e.TransitionPeriod = cmp.Or(e.TransitionPeriod, defaultPressureTransition)
	if e.TransitionPeriod < 0 {
		errs = append(errs, fmt.Errorf("--eviction-pressure-transition-period must not be negative, as %v is", e.TransitionPeriod))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	var err error
	e.thresholds, err = flags.Thresholds()
	return err
}

// pressureFile keeps the node's conditions of pressure.
func (o *Options) pressureFile() string { return filepath.Join(o.StateDir, "pressure") }
