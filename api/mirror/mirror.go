// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

const (
	// maxReport is the longest report, in bytes: all annotations of an object have 256 KiB.
	maxReport = 64 << 10
	// Max is how many workloads a report names, and how many mirrors a node has.
	Max = 100
	// suffix ends the names of mirrors. That of a ManagedWorkload's NodeWorkload ends with a hash.
	suffix = ".static"
)

// Report is what a shim asks of the manager about the mirrors of its node: only what is not as it
// should be.
type Report struct {
	// Create are workloads that lack their mirror.
	Create []Workload `json:"create,omitempty"`
	// Delete are the mirrors of workloads that are gone, or another instance by now.
	Delete []Mirror `json:"delete,omitempty"`
}

// Workload is one that a shim runs from a file.
type Workload struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// UID is that of the instance.
	UID types.UID `json:"uid"`
	// InitContainers and Containers have a name, an image and resources.
	InitContainers []corev1.Container `json:"initContainers,omitempty"`
	Containers     []corev1.Container `json:"containers"`
}

// Mirror is one that is there.
type Mirror struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
}

// Is reports whether an object is a mirror: no shim runs it.
func Is(nw metav1.Object) bool { return nw.GetLabels()[v1alpha1.LabelStatic] == "true" }

// Of is the instance that a mirror is about.
func Of(nw metav1.Object) types.UID {
	return types.UID(nw.GetAnnotations()[v1alpha1.AnnotationStaticUID])
}

// Name is that of a workload's mirror on a node. No NodeWorkload of a ManagedWorkload has such a name, so
// that no mirror stands in its way. (kubelet config/common.go:generatePodName)
func Name(workload, node string) string { return placement.NodeWorkloadName(workload, node) + suffix }

// Reported is a workload as a report has it.
func Reported(w *template.Workload) Workload {
	spec := &w.Template.Spec
	return Workload{
		Namespace: w.Namespace, Name: w.Name, UID: w.UID,
		InitContainers: outlines(spec.InitContainers), Containers: outlines(spec.Containers),
	}
}

// outlines leave out all that may be secret, or long.
func outlines(containers []corev1.Container) []corev1.Container {
	outlined := make([]corev1.Container, 0, len(containers))
	for i := range containers {
		c := &containers[i]
		outlined = append(outlined, corev1.Container{Name: c.Name, Image: c.Image, Resources: *c.Resources.DeepCopy(), RestartPolicy: c.RestartPolicy})
	}
	return outlined
}

// Object is the mirror of a workload on a node.
func (w Workload) Object(node string) *v1alpha1.NodeWorkload {
	return &v1alpha1.NodeWorkload{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.Namespace, Name: Name(w.Name, node),
			Labels:      map[string]string{v1alpha1.LabelStatic: "true", v1alpha1.LabelNode: placement.LabelValue(node)},
			Annotations: map[string]string{v1alpha1.AnnotationStaticUID: string(w.UID)},
		},
		Spec: v1alpha1.NodeWorkloadSpec{
			NodeName: node,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				InitContainers: outlines(w.InitContainers), Containers: outlines(w.Containers),
			}},
		},
	}
}

// TooLarge reports whether a workload is too large for any report. It has no mirror.
func (w Workload) TooLarge() bool {
	_, left, _ := Report{Create: []Workload{w}}.Fit() // what cannot be encoded is no large workload
	return left > 0
}

// emptyReport is the length of a report but for its items.
const emptyReport = len(`{"create":[],"delete":[]}`)

// Fit returns the part of a report that has place in an annotation, and how many workloads have none: they wait for
// another report. One that is too large takes no place from those that come after it.
func (r Report) Fit() (fitting Report, left int, err error) {
	fitting.Delete = r.Delete[:min(len(r.Delete), Max)]
	deletions, err := json.Marshal(fitting.Delete)
	size := emptyReport + len(deletions)
	for _, w := range r.Create {
		data, problem := json.Marshal(w)
		switch {
		case problem != nil:
			err = errors.Join(err, problem)
		case size+len(data)+1 > maxReport || len(fitting.Create) == Max:
			left++
		default:
			size += len(data) + 1
			fitting.Create = append(fitting.Create, w)
		}
	}
	return fitting, left, err
}

// Encode is the text of the part of a report that has place in an annotation, "" for an empty one.
func (r Report) Encode() (string, error) {
	r, _, err := r.Fit()
	if err != nil {
		return "", fmt.Errorf("encode the report of static workloads: %w", err)
	}
	if len(r.Create)+len(r.Delete) == 0 {
		return "", nil
	}
	data, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("encode the report of static workloads: %w", err)
	}
	return string(data), nil
}

var errTooLong = errors.New("it is too long")

// Decode reads a report, which may say anything.
func Decode(text string) (Report, error) {
	r := Report{}
	if len(text) > maxReport {
		return r, errTooLong
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return r, err
	}
	if len(r.Create) > Max || len(r.Delete) > Max {
		return r, errTooLong
	}
	for _, w := range r.Create {
		if len(validation.IsDNS1123Subdomain(w.Name)) > 0 || len(validation.IsDNS1123Label(w.Namespace)) > 0 || len(w.UID) > validation.LabelValueMaxLength {
			return r, fmt.Errorf("%q is no name of a workload", w.Namespace+"/"+w.Name)
		}
	}
	for _, m := range r.Delete {
		if len(validation.IsDNS1123Subdomain(m.Name)) > 0 || len(validation.IsDNS1123Label(m.Namespace)) > 0 {
			return r, fmt.Errorf("%q is no name of a mirror", m.Namespace+"/"+m.Name)
		}
	}
	return r, nil
}
