// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/managedworkload/managedworkload/api/objects"
	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// Class says what a note is about.
type Class string

// The classes of notes.
const (
	// Dropped: the ManagedWorkload does not have it.
	Dropped Class = "dropped"
	// Refused: the API server refuses the ManagedWorkload for it.
	Refused Class = "refused"
	// Ignored: the ManagedWorkload has it, and it has no effect.
	Ignored Class = "ignored"
	// Advice is what else to know before the ManagedWorkload is applied.
	Advice Class = "advice"
)

// Note is what a person should know about one field, or about the whole.
type Note struct {
	Class Class  `json:"class"`
	Path  string `json:"path,omitempty"`
	Text  string `json:"text"`
}

// Result is a ManagedWorkload and what there is to know about it.
type Result struct {
	ManagedWorkload *v1alpha1.ManagedWorkload
	Notes           []Note
}

// Refused reports whether the API server would refuse the ManagedWorkload.
func (r *Result) Refused() bool {
	for _, n := range r.Notes {
		if n.Class == Refused {
			return true
		}
	}
	return false
}

// DaemonSet converts a DaemonSet. A field of the template that would be refused stays in
// the result: only a person knows what should stand in its place.
func DaemonSet(ds *appsv1.DaemonSet) Result {
	c := converter{ds: ds, mw: &v1alpha1.ManagedWorkload{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ManagedWorkload"},
		Spec: v1alpha1.ManagedWorkloadSpec{
			Template: *ds.Spec.Template.DeepCopy(), MinReadySeconds: ds.Spec.MinReadySeconds, RevisionHistoryLimit: ds.Spec.RevisionHistoryLimit,
		},
	}}
	c.mw.Spec.Template.CreationTimestamp = metav1.Time{}
	c.metadata()
	c.strategy()
	c.selector()
	c.deadline()
	c.template()
	c.advice()
	return Result{ManagedWorkload: c.mw, Notes: c.notes}
}

type converter struct {
	ds    *appsv1.DaemonSet
	mw    *v1alpha1.ManagedWorkload
	notes []Note
}

func (c *converter) note(class Class, path, format string, args ...any) {
	c.notes = append(c.notes, Note{class, path, fmt.Sprintf(format, args...)})
}

// droppedAnnotations are about the DaemonSet, with what a note says of each.
var droppedAnnotations = map[string]string{
	corev1.LastAppliedConfigAnnotation:  "kubectl apply writes it for the ManagedWorkload",
	appsv1.DeprecatedTemplateGeneration: "the DaemonSet controller's count of templates",
	"kubernetes.io/change-cause":        "it describes a change of the DaemonSet",
}

// metadata keeps labels and annotations, but not what is about the DaemonSet itself.
func (c *converter) metadata() {
	from := &c.ds.ObjectMeta
	to := metav1.ObjectMeta{Name: from.Name, Namespace: from.Namespace, Labels: from.Labels}
	for _, key := range slices.Sorted(maps.Keys(from.Annotations)) {
		if reason, dropped := droppedAnnotations[key]; dropped {
			c.note(Dropped, "metadata.annotations["+key+"]", "%s", reason)
			continue
		}
		metav1.SetMetaDataAnnotation(&to, key, from.Annotations[key])
	}
	if len(from.Finalizers) > 0 {
		c.note(Dropped, "metadata.finalizers", "they hold the deletion of the DaemonSet")
	}
	for _, owner := range from.OwnerReferences {
		c.note(Dropped, "metadata.ownerReferences", "the owner manages the DaemonSet; %s %s may create it again", owner.Kind, owner.Name)
	}
	c.mw.ObjectMeta = to
}

// strategy maps updateStrategy. A surge has no counterpart: the pods of two revisions
// never run on a node at the same time.
func (c *converter) strategy() {
	from := c.ds.Spec.UpdateStrategy
	if from.Type == appsv1.OnDeleteDaemonSetStrategyType {
		c.mw.Spec.UpdateStrategy = &v1alpha1.UpdateStrategy{Type: v1alpha1.OnDeleteStrategyType}
		return
	}
	if from.RollingUpdate == nil {
		return
	}
	unavailable := from.RollingUpdate.MaxUnavailable
	if set(from.RollingUpdate.MaxSurge) {
		c.note(Dropped, "spec.updateStrategy.rollingUpdate.maxSurge",
			"a node never runs two instances of a workload; the image is pulled before the old container is killed")
	}
	if set(unavailable) {
		c.mw.Spec.UpdateStrategy = &v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdate{MaxUnavailable: unavailable}}
	} else if unavailable != nil {
		c.note(Dropped, "spec.updateStrategy.rollingUpdate.maxUnavailable", "it must be at least 1, which is the default")
	}
}

// set reports whether a number or percentage is above 0.
func set(value *intstr.IntOrString) bool {
	return value != nil && value.String() != "0" && value.String() != "0%"
}

func (c *converter) selector() {
	if c.ds.Spec.Selector != nil {
		c.note(Dropped, "spec.selector", "NodeWorkloads are found by their owner and the label "+v1alpha1.LabelWorkload)
	}
}

// deadline keeps progressDeadlineSeconds above minReadySeconds.
func (c *converter) deadline() {
	const defaultDeadline = 600
	if ready := c.mw.Spec.MinReadySeconds; ready >= defaultDeadline {
		deadline := ready + defaultDeadline
		c.mw.Spec.ProgressDeadlineSeconds = &deadline
		c.note(Advice, "spec.progressDeadlineSeconds", "set to %d: it must be greater than minReadySeconds", deadline)
	}
}

// template asks the table of fields. What has no effect and says no more than a default is
// taken away: the API server wrote it.
func (c *converter) template() {
	spec := &c.mw.Spec.Template.Spec
	if spec.SchedulerName == corev1.DefaultSchedulerName {
		spec.SchedulerName = ""
	}
	if spec.EnableServiceLinks != nil && *spec.EnableServiceLinks == corev1.DefaultEnableServiceLinks {
		spec.EnableServiceLinks = nil
	}
	t := c.mw.Spec.Template.DeepCopy()
	template.SetDefaults(t)
	t.Spec.SchedulerName, t.Spec.EnableServiceLinks = spec.SchedulerName, spec.EnableServiceLinks
	refused, ignored := template.Check(t, field.NewPath("spec", "template"))
	for _, err := range refused {
		c.note(Refused, err.Field, "%s", strings.TrimPrefix(err.ErrorBody(), "Forbidden: "))
	}
	for _, path := range ignored {
		c.note(Ignored, path, "%s", reason(path))
	}
}

var index = regexp.MustCompile(`\[[^\]]*\]`)

// reason is what the table says about an ignored field.
func reason(path string) string {
	path = index.ReplaceAllString(strings.TrimPrefix(path, "spec.template."), "[]")
	for _, f := range template.Fields() {
		if key := strings.TrimSuffix(f.Path, ".*"); key == path || strings.TrimSuffix(key, "[]") == path {
			return f.Note
		}
	}
	return ""
}

// kustomizeComponent is config/kustomize of the repository, as kustomize takes it.
const kustomizeComponent = "https://github.com/managedworkload/managedworkload//config/kustomize"

func (c *converter) advice() {
	c.note(Advice, "", "The DaemonSet runs on: delete it before this is applied, or both run on each node. Its Pods and this use the same host ports and hostPaths.")
	spec := &c.mw.Spec.Template.Spec
	c.adviseObjects(spec)
	if !spec.HostNetwork {
		c.note(Advice, "", "Services select Pods, and there are none: reach the containers by host ports or the host's network.")
	}
	for _, path := range objects.OwnPod(spec, field.NewPath("spec", "template", "spec")) {
		c.note(Advice, path.String(), "%s", objects.OwnPodAdvice)
	}
	c.note(Advice, "", "With kustomize, add components: [%s] to the kustomization that patches this, so that it merges lists and follows names as in a DaemonSet (docs/from-a-daemonset.md).", kustomizeComponent)
}

// managerAccount is the ServiceAccount of the manager as config/default installs it.
const managerAccount = v1alpha1.DefaultNamespace + ":managedworkload-manager"

// adviseObjects says what the containers need of the API, and who has to allow it.
func (c *converter) adviseObjects(spec *corev1.PodSpec) {
	if token := spec.AutomountServiceAccountToken; token == nil || *token {
		account := cmp.Or(spec.ServiceAccountName, "default")
		c.note(Advice, "", "Containers get a token of the ServiceAccount %s, as Pods of the DaemonSet do, where the component objects is installed (docs/objects.md)."+
			" Without one, set automountServiceAccountToken: false. Otherwise let the manager make it: %s",
			account, objects.GrantTokens(cmp.Or(c.ds.Namespace, "NAMESPACE"), account, "--serviceaccount="+managerAccount))
	}
	var names []string
	for _, ref := range objects.Of(spec) {
		if ref != (objects.Ref{Kind: objects.ConfigMap, Name: objects.RootCA}) {
			names = append(names, string(ref.Kind)+" "+ref.Name)
		}
	}
	if len(names) == 0 {
		return
	}
	c.note(Advice, "", "The template refers to %s. Let the manager read the namespace's ConfigMaps and Secrets: kubectl create rolebinding managedworkload-objects"+
		" --clusterrole=managedworkload-objects --serviceaccount=%s -n %s. A Role with these names alone is narrower (docs/objects.md).",
		strings.Join(names, ", "), managerAccount, cmp.Or(c.ds.Namespace, "NAMESPACE"))
}
