// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// DefaultEvictionHard are the kubelet's hard thresholds where no others are given. (kubelet
// eviction/defaults_linux.go)
var DefaultEvictionHard = ThresholdTexts{
	SignalMemoryAvailable:   "100Mi",
	SignalNodeFsAvailable:   "10%",
	SignalNodeFsInodesFree:  "5%",
	SignalImageFsAvailable:  "15%",
	SignalImageFsInodesFree: "5%",
}

// ThresholdTexts are what a flag gives for signals, not yet parsed.
type ThresholdTexts map[Signal]string

// EvictionFlags are the flags about node pressure, by the kubelet's names.
type EvictionFlags struct{ Hard, Soft, SoftGracePeriod, MinimumReclaim ThresholdTexts }

// SplitThresholds splits the parts of a flag into signals and what is given for them: the
// separator is "<" or "=".
func SplitThresholds(flag string, parts []string, separator string) (ThresholdTexts, error) {
	texts := ThresholdTexts{}
	for _, part := range parts {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, text, found := strings.Cut(part, separator)
		signal := Signal(strings.TrimSpace(name))
		switch _, twice := texts[signal]; {
		case !found:
			return nil, fmt.Errorf("%s: %q is not of the form signal%svalue", flag, part, separator)
		case twice:
			return nil, fmt.Errorf("%s: %q: %s is given twice", flag, part, signal)
		}
		texts[signal] = strings.TrimSpace(text)
	}
	return texts, nil
}

// Thresholds parses the flags. Hard thresholds come first, each kind in the order of the
// signals. An error names the flag and the part. (kubelet eviction/helpers.go:
// ParseThresholdConfig)
func (f EvictionFlags) Thresholds() ([]Threshold, error) {
	var thresholds []Threshold
	errs := []error{
		eachText("--eviction-hard", f.Hard, func(s Signal, text string) error {
			t, err := parseThreshold(s, text)
			thresholds = append(thresholds, t...)
			return err
		}),
		eachText("--eviction-soft", f.Soft, func(s Signal, text string) error {
			t, err := parseThreshold(s, text)
			if err == nil && len(t) > 0 {
				t[0].GracePeriod, err = f.softGrace(s)
			}
			thresholds = append(thresholds, t...)
			return err
		}),
		eachText("--eviction-soft-grace-period", f.SoftGracePeriod, func(_ Signal, text string) error {
			_, err := parseGrace(text)
			return err
		}),
		eachText("--eviction-minimum-reclaim", f.MinimumReclaim, func(s Signal, text string) error {
			value, err := parseReclaim(text)
			for i := range thresholds {
				if thresholds[i].Signal == s && err == nil {
					thresholds[i].MinReclaim = value
				}
			}
			return err
		}),
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return thresholds, nil
}

// softGrace is the grace period of a soft threshold. A wrong one is named by its own flag.
func (f EvictionFlags) softGrace(s Signal) (time.Duration, error) {
	text, found := f.SoftGracePeriod[s]
	if !found {
		return 0, fmt.Errorf("--eviction-soft-grace-period must give a grace period for %s", s)
	}
	grace, err := parseGrace(text)
	if err != nil {
		return 0, nil //nolint:nilerr // eachText of that flag reports it
	}
	return grace, nil
}

// eachText parses what a flag gives, in the order of the signals.
func eachText(flag string, texts ThresholdTexts, parse func(Signal, string) error) error {
	var errs []error
	for s, text := range texts {
		if !slices.Contains(signals, s) {
			errs = append(errs, fmt.Errorf("%s: %q: the signal %q is not supported; %s are", flag, text, s, names(signals)))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	for _, s := range signals {
		text, given := texts[s]
		if !given {
			continue
		}
		if err := parse(s, text); err != nil {
			errs = append(errs, fmt.Errorf("%s: %s, %q: %w", flag, s, text, err))
		}
	}
	return errors.Join(errs...)
}

func names(all []Signal) string {
	texts := make([]string, 0, len(all))
	for _, s := range all {
		texts = append(texts, string(s))
	}
	return strings.Join(texts, ", ")
}

// parseThreshold parses a threshold; 0% and 100% are none. (kubelet eviction/helpers.go:
// parseThresholdStatement)
func parseThreshold(s Signal, text string) ([]Threshold, error) {
	if text == "0%" || text == "100%" {
		return nil, nil
	}
	value, err := parseValue(text)
	switch {
	case err != nil:
		return nil, err
	case value.Quantity == nil && (value.Percentage < 0 || value.Percentage > 1):
		return nil, errors.New("a percentage must be between 0% and 100%")
	case value.Quantity != nil && value.Quantity.Sign() <= 0:
		return nil, errors.New("a quantity must be positive")
	}
	return []Threshold{{Signal: s, Value: *value}}, nil
}

// parseReclaim parses a minimum to reclaim. (kubelet eviction/helpers.go:parseMinimumReclaims)
func parseReclaim(text string) (*ThresholdValue, error) {
	value, err := parseValue(text)
	switch {
	case err != nil:
		return nil, err
	case value.Quantity == nil && value.Percentage <= 0:
		return nil, errors.New("a percentage must be positive")
	case value.Quantity != nil && value.Quantity.Sign() < 0:
		return nil, errors.New("a quantity must not be negative")
	}
	return value, nil
}

func parseValue(text string) (*ThresholdValue, error) {
	if !strings.HasSuffix(text, "%") {
		quantity, err := resource.ParseQuantity(text)
		return &ThresholdValue{Quantity: &quantity}, err
	}
	percentage, err := strconv.ParseFloat(strings.TrimRight(text, "%"), 32)
	if err != nil || math.IsNaN(percentage) {
		return nil, errors.New("this is no percentage")
	}
	return &ThresholdValue{Percentage: float32(percentage) / 100}, nil
}

func parseGrace(text string) (time.Duration, error) {
	grace, err := time.ParseDuration(text)
	if err == nil && grace < 0 {
		err = errors.New("a grace period must not be negative")
	}
	return grace, err
}
