// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podvalidation

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// placement checks on which nodes a pod may run. A node runs the files that lie on it, but what no Pod may
// say is a mistake here too.
func (p *problems) placement(spec *corev1.PodSpec, path *field.Path) {
	p.add(metavalidation.ValidateLabels(spec.NodeSelector, path.Child("nodeSelector"))...)
	for i := range spec.Tolerations {
		p.toleration(&spec.Tolerations[i], path.Child("tolerations").Index(i))
	}
	spreads := map[string]bool{}
	for i := range spec.TopologySpreadConstraints {
		c, at := &spec.TopologySpreadConstraints[i], path.Child("topologySpreadConstraints").Index(i)
		p.spread(c, at)
		p.unique(at.Child("topologyKey"), c.TopologyKey+", "+string(c.WhenUnsatisfiable), spreads)
	}
	if spec.Affinity == nil {
		return
	}
	at := path.Child("affinity")
	p.nodeAffinity(ptr.Deref(spec.Affinity.NodeAffinity, corev1.NodeAffinity{}), at.Child("nodeAffinity"))
	if a := spec.Affinity.PodAffinity; a != nil {
		p.podAffinity(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution, at.Child("podAffinity"))
	}
	if a := spec.Affinity.PodAntiAffinity; a != nil {
		p.podAffinity(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution, at.Child("podAntiAffinity"))
	}
}

func (p *problems) toleration(t *corev1.Toleration, path *field.Path) {
	if t.Key != "" {
		p.add(metavalidation.ValidateLabelName(t.Key, path.Child("key"))...)
	}
	operator := path.Child("operator")
	if t.Key == "" && t.Operator != corev1.TolerationOpExists {
		p.invalid(operator, t.Operator, "operator must be Exists when `key` is empty, which means \"match all values and all keys\"")
	}
	switch t.Operator {
	case corev1.TolerationOpEqual, "":
		if messages := validation.IsValidLabelValue(t.Value); len(messages) > 0 {
			p.invalid(operator, t.Value, strings.Join(messages, ";"))
		}
	case corev1.TolerationOpExists:
		if t.Value != "" {
			p.invalid(operator, t.Value, "value must be empty when `operator` is 'Exists'")
		}
	default:
		p.add(field.NotSupported(operator, t.Operator, []corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists}))
	}
	if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
		p.invalid(path.Child("effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
	}
	if t.Effect != "" {
		oneOf(p, path.Child("effect"), t.Effect, corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule)
	}
}

func (p *problems) nodeAffinity(affinity corev1.NodeAffinity, path *field.Path) {
	if required := affinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		at := path.Child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
		if len(required.NodeSelectorTerms) == 0 {
			p.add(field.Required(at, "must have at least one node selector term"))
		}
		for i := range required.NodeSelectorTerms {
			p.nodeTerm(&required.NodeSelectorTerms[i], at.Index(i), true)
		}
	}
	for i := range affinity.PreferredDuringSchedulingIgnoredDuringExecution {
		preferred, at := &affinity.PreferredDuringSchedulingIgnoredDuringExecution[i], path.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i)
		p.weight(preferred.Weight, at.Child("weight"))
		p.nodeTerm(&preferred.Preference, at.Child("preference"), false)
	}
}

func (p *problems) weight(weight int32, path *field.Path) {
	const most = 100
	if weight < 1 || weight > most {
		p.invalid(path, weight, "must be in the range 1-100")
	}
}

// nodeTerm checks a term that selects nodes; strict says that its values must be those of labels.
func (p *problems) nodeTerm(term *corev1.NodeSelectorTerm, path *field.Path, strict bool) {
	for i, expression := range term.MatchExpressions {
		p.nodeExpression(expression, path.Child("matchExpressions").Index(i), strict)
	}
	for i, match := range term.MatchFields {
		at := path.Child("matchFields").Index(i)
		switch match.Operator {
		case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
			if len(match.Values) != 1 {
				p.add(field.Required(at.Child("values"), "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"))
			}
		default:
			p.invalid(at.Child("operator"), match.Operator, "not a valid selector operator")
		}
		if match.Key != metav1.ObjectNameField {
			p.invalid(at.Child("key"), match.Key, "not a valid field selector key")
			continue
		}
		for j, value := range match.Values {
			p.invalid(at.Child("values").Index(j), value, validation.IsDNS1123Subdomain(value)...)
		}
	}
}

func (p *problems) nodeExpression(e corev1.NodeSelectorRequirement, path *field.Path, strict bool) {
	values := path.Child("values")
	switch e.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(e.Values) == 0 {
			p.add(field.Required(values, "must be specified when `operator` is 'In' or 'NotIn'"))
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(e.Values) > 0 {
			p.forbidden(values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(e.Values) != 1 {
			p.add(field.Required(values, "must be specified single value when `operator` is 'Lt' or 'Gt'"))
		}
	default:
		p.invalid(path.Child("operator"), e.Operator, "not a valid selector operator")
	}
	p.add(metavalidation.ValidateLabelName(e.Key, path.Child("key"))...)
	for i, value := range e.Values {
		if strict {
			p.invalid(values.Index(i), value, validation.IsValidLabelValue(value)...)
		}
	}
}

func (p *problems) podAffinity(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, path *field.Path) {
	for i := range required {
		p.podTerm(&required[i], path.Child("requiredDuringSchedulingIgnoredDuringExecution").Index(i))
	}
	for i := range preferred {
		at := path.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i)
		p.weight(preferred[i].Weight, at.Child("weight"))
		p.podTerm(&preferred[i].PodAffinityTerm, at.Child("podAffinityTerm"))
	}
}

func (p *problems) podTerm(term *corev1.PodAffinityTerm, path *field.Path) {
	p.selector(term.LabelSelector, path.Child("labelSelector"))
	p.selector(term.NamespaceSelector, path.Child("namespaceSelector"))
	for i, namespace := range term.Namespaces {
		p.invalid(path.Child("namespaces").Index(i), namespace, validation.IsDNS1123Label(namespace)...)
	}
	if p.required(path.Child("topologyKey"), term.TopologyKey) {
		p.add(metavalidation.ValidateLabelName(term.TopologyKey, path.Child("topologyKey"))...)
	}
}

func (p *problems) selector(selector *metav1.LabelSelector, path *field.Path) {
	p.add(metavalidation.ValidateLabelSelector(selector, metavalidation.LabelSelectorValidationOptions{}, path)...)
}

func (p *problems) spread(c *corev1.TopologySpreadConstraint, path *field.Path) {
	if c.MaxSkew < 1 {
		p.invalid(path.Child("maxSkew"), c.MaxSkew, "must be greater than zero")
	}
	p.required(path.Child("topologyKey"), c.TopologyKey)
	optionalOneOf(p, path.Child("whenUnsatisfiable"), &c.WhenUnsatisfiable, corev1.DoNotSchedule, corev1.ScheduleAnyway)
	if c.MinDomains != nil && (*c.MinDomains < 1 || c.WhenUnsatisfiable != corev1.DoNotSchedule) {
		p.invalid(path.Child("minDomains"), *c.MinDomains, "must be greater than zero, and needs whenUnsatisfiable=DoNotSchedule")
	}
	policies := []corev1.NodeInclusionPolicy{corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore}
	optionalOneOf(p, path.Child("nodeAffinityPolicy"), c.NodeAffinityPolicy, policies...)
	optionalOneOf(p, path.Child("nodeTaintsPolicy"), c.NodeTaintsPolicy, policies...)
	if len(c.MatchLabelKeys) > 0 && (c.LabelSelector == nil || slices.Contains(c.MatchLabelKeys, "")) {
		p.forbidden(path.Child("matchLabelKeys"), "must not be specified when labelSelector is not set, and must not be empty")
	}
	p.selector(c.LabelSelector, path.Child("labelSelector"))
}
