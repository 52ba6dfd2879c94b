// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var revisionMistakes = []mistake{
	{"a patch that rounds an integer is kept", "Spec",
		"if gives(&spec, to) {", "if true {"},
	{"templates that differ by rounding are the same", "Spec",
		"if bytes.Equal(from, to) {", "if operations, err := difference(from, to); err == nil && len(operations) == 0 {"},
	{"a revision has a part of the template that it was made of", "Spec",
		"Template: *admitted.DeepCopy()", "Template: *admitted"},
	{"the user's template is a part of the revision", "User",
		"return spec.Template.DeepCopy(), nil", "return &spec.Template, nil"},
	{"any operation of a patch is applied", "User",
		`kind != "add" && kind != "remove" && kind != "replace"`, `kind == ""`},
}

var revisionEditedMistakes = []mistake{
	{"a revision whose patch cannot be applied is used", "Intact",
		"err == nil && template.Hash(user)", "err != nil || template.Hash(user)"},
	{"a revision whose template was changed by hand is used", "Intact",
		"err == nil && template.Hash(user) == object.Labels[v1alpha1.LabelRevision]", "err == nil && template.Hash(user) != \"\""},
}
