// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// honoured are the fields of a spec that a shim honours without a manager.
var honoured = map[string]bool{"nodeName": true, "template": true, "deletionGracePeriodSeconds": true, "restartBackoff": true}

// managersOnly refuses the fields of an object's spec that only a manager honours: those of a roll-out, and requests.
func managersOnly(object runtime.Object) field.ErrorList {
	var spec reflect.Value
	switch o := object.(type) {
	case *v1alpha1.ManagedWorkload:
		spec = reflect.ValueOf(o.Spec)
	case *v1alpha1.NodeWorkload:
		spec = reflect.ValueOf(o.Spec)
	default:
		return nil
	}
	var errs field.ErrorList
	for i := range spec.NumField() {
		name, _, _ := strings.Cut(spec.Type().Field(i).Tag.Get("json"), ",")
		if !spec.Field(i).IsZero() && !honoured[name] {
			errs = append(errs, field.Forbidden(field.NewPath("spec", name), "only the manager honours it, and a static workload has none: leave it out"))
		}
	}
	return errs
}

// maxBackoff is the longest wait before a restart, in seconds.
const maxBackoff = 300

// checkTimes finds times that the API server would not accept.
func checkTimes(spec *v1alpha1.NodeWorkloadSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s := spec.DeletionGracePeriodSeconds; s != nil && *s < 0 {
		errs = append(errs, field.Invalid(path.Child("deletionGracePeriodSeconds"), *s, "must be greater than or equal to 0"))
	}
	b := ptr.Deref(spec.RestartBackoff, v1alpha1.RestartBackoff{})
	path = path.Child("restartBackoff")
	for _, wait := range []struct {
		name    string
		seconds *int32
	}{{"baseSeconds", b.BaseSeconds}, {"maxSeconds", b.MaxSeconds}} {
		if s := wait.seconds; s != nil && (*s < 1 || *s > maxBackoff) {
			errs = append(errs, field.Invalid(path.Child(wait.name), *s, "must be between 1 and 300, inclusive"))
		}
	}
	if b.BaseSeconds != nil && b.MaxSeconds != nil && *b.BaseSeconds > *b.MaxSeconds {
		errs = append(errs, field.Invalid(path.Child("baseSeconds"), *b.BaseSeconds, "baseSeconds may not exceed maxSeconds"))
	}
	return errs
}
