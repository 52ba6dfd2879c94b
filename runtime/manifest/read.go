// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/podvalidation"
)

// MaxSize is the longest object that is read, in bytes: more than the API server takes.
const MaxSize = 8 << 20

// Reader reads objects that people wrote.
type Reader struct {
	// Node is the node that a ManagedWorkload is read for; "" if there is none.
	Node string
	// Static refuses what only a manager honours: no manager sees the object.
	Static bool
}

// Read reads one NodeWorkload, or that of a node for a ManagedWorkload,
// as YAML or JSON. Its error names the line or the fields at fault.
func (r Reader) Read(in io.Reader) (*template.Workload, error) {
	data, err := io.ReadAll(io.LimitReader(in, MaxSize+1))
	if err != nil {
		return nil, err
	}
	if len(data) > MaxSize {
		return nil, fmt.Errorf("longer than %d bytes", MaxSize)
	}
	document, err := Document(data)
	if err != nil {
		return nil, err
	}
	at := linesOf(data)
	object, err := decode(document)
	if err != nil {
		return nil, at.locate(err)
	}
	nw, err := r.nodeWorkload(object)
	if err != nil {
		return nil, at.locate(err)
	}
	if nw.Spec.NodeName == "" {
		nw.Spec.NodeName = r.Node
	}
	if nw.Namespace == "" {
		nw.Namespace = metav1.NamespaceDefault
	}
	errs := check(nw)
	if r.Static {
		errs = append(managersOnly(object), errs...)
	}
	return nw, at.fields(errs)
}

// Document is the part of a file that is the object.
func Document(data []byte) ([]byte, error) {
	document, err := onlyDocument(data)
	if err != nil {
		return nil, err
	}
	return onlyItem(document)
}

// onlyDocument returns the one document of a YAML stream.
func onlyDocument(data []byte) ([]byte, error) {
	documents := yaml.NewDocumentDecoder(io.NopCloser(strings.NewReader(string(data))))
	defer documents.Close() //nolint:errcheck // It only reads from memory.
	var found [][]byte
	buffer := make([]byte, len(data)+1)
	for {
		n, err := documents.Read(buffer)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if document := buffer[:n]; !blank(document) {
			found = append(found, slices.Clone(document))
		}
	}
	switch len(found) {
	case 0:
		return nil, errors.New("it is empty: want a NodeWorkload or a ManagedWorkload")
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("it holds %d documents: want one NodeWorkload or ManagedWorkload", len(found))
}

// onlyItem returns the one object of a list, as kubectl prints it for a selector, or
// what is no list as it is.
func onlyItem(document []byte) ([]byte, error) {
	var list struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Items      []json.RawMessage `json:"items"`
	}
	if err := yaml.Unmarshal(document, &list); err != nil || list.APIVersion != "v1" || list.Kind != "List" {
		return document, nil //nolint:nilerr // decode says what is wrong with it.
	}
	if len(list.Items) != 1 {
		return nil, fmt.Errorf("it is a list of %d objects: want one NodeWorkload or ManagedWorkload", len(list.Items))
	}
	return list.Items[0], nil
}

// blank is whether a document has nothing but comments.
func blank(document []byte) bool {
	for line := range strings.Lines(string(document)) {
		line = strings.TrimSpace(line)
		if line != "" && line != "---" && !strings.HasPrefix(line, "#") {
			return false
		}
	}
	return true
}

// decode decodes an object and refuses fields that its type does not have.
func decode(document []byte) (runtime.Object, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	strict := serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, scheme, scheme,
		serializer.SerializerOptions{Yaml: true, Strict: true})
	object, kind, err := strict.Decode(document, nil, nil)
	if runtime.IsNotRegisteredError(err) || runtime.IsMissingKind(err) || runtime.IsMissingVersion(err) {
		return nil, wrongKind(kind)
	}
	if err != nil {
		return nil, err
	}
	return object, nil
}

func wrongKind(kind *schema.GroupVersionKind) error {
	if kind == nil || kind.Empty() {
		return fmt.Errorf("apiVersion and kind are missing: want %s and NodeWorkload or ManagedWorkload", v1alpha1.GroupVersion)
	}
	return fault{"kind", fmt.Errorf("apiVersion %q with kind %q: want %q with NodeWorkload or ManagedWorkload%s",
		kind.GroupVersion(), kind.Kind, v1alpha1.GroupVersion, advice[kind.GroupKind()])}
}

// advice is what to do with objects that people have, and that a workload can be made of.
var advice = map[schema.GroupKind]string{
	{Kind: "Pod"}:                      "; keep metadata.name and metadata.namespace, and move the Pod's spec to spec.template.spec",
	{Group: "apps", Kind: "DaemonSet"}: "; kubectl mw convert -f FILE prints the ManagedWorkload of a DaemonSet",
}

// nodeWorkload returns the object, or what the manager makes of it for a node.
func (r Reader) nodeWorkload(object runtime.Object) (*template.Workload, error) {
	switch o := object.(type) {
	case *v1alpha1.NodeWorkload:
		if r.Node != "" && o.Spec.NodeName != "" && r.Node != o.Spec.NodeName {
			return nil, fault{"spec.nodeName", fmt.Errorf("spec.nodeName: it is of node %q, --node-name says %q", o.Spec.NodeName, r.Node)}
		}
		return template.Of(o), nil
	case *v1alpha1.ManagedWorkload:
		return r.fromManagedWorkload(o)
	}
	return nil, fault{"kind", fmt.Errorf("kind %q: want a single NodeWorkload or ManagedWorkload", object.GetObjectKind().GroupVersionKind().Kind)}
}

// fromManagedWorkload is what the manager would write for the node.
// (controllers/workload/nodes.go:newNodeWorkload)
func (r Reader) fromManagedWorkload(mw *v1alpha1.ManagedWorkload) (*template.Workload, error) {
	switch {
	case r.Node == "":
		return nil, errors.New("it is a ManagedWorkload: --node-name must say for which node")
	case mw.DeletionTimestamp != nil:
		return nil, fault{"metadata.deletionTimestamp", errors.New("metadata.deletionTimestamp: the ManagedWorkload is being deleted: give the NodeWorkload of the node")}
	case mw.Name == "":
		return nil, fault{"metadata.name", field.Required(field.NewPath("metadata", "name"), "")}
	}
	nw := &template.Workload{Template: &mw.Spec.Template, NodeWorkload: v1alpha1.NodeWorkload{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: mw.Namespace,
			Name:      placement.NodeWorkloadName(mw.Name, r.Node),
			Labels:    map[string]string{v1alpha1.LabelWorkload: placement.LabelValue(mw.Name)},
		},
		Spec: v1alpha1.NodeWorkloadSpec{NodeName: r.Node, RestartBackoff: mw.Spec.RestartBackoff},
	}}
	if value, found := mw.Annotations[v1alpha1.AnnotationDeletionGracePeriodSeconds]; found {
		seconds, ok := v1alpha1.DeletionGrace(value)
		switch {
		case ok:
			nw.Spec.DeletionGracePeriodSeconds = &seconds
		case r.Static: // a manager says it in a condition, and uses the template's
			path := field.NewPath("metadata", "annotations").Key(v1alpha1.AnnotationDeletionGracePeriodSeconds)
			return nil, fault{path.String(), field.Invalid(path, value, "must be a number of seconds from 0 on")}
		}
	}
	return nw, nil
}

// check finds what the API server would not accept as far as what is computed from an
// object depends on it, and what the shim refuses.
func check(nw *template.Workload) field.ErrorList {
	var errs field.ErrorList
	require := func(value string, path ...string) {
		if value == "" {
			errs = append(errs, field.Required(field.NewPath(path[0], path[1:]...), ""))
		}
	}
	require(nw.Name, "metadata", "name")
	require(nw.Spec.NodeName, "spec", "nodeName")
	errs = append(errs, checkTimes(&nw.Spec, field.NewPath("spec"))...)
	path := field.NewPath("spec", "template")
	defaulted := nw.Template.DeepCopy()
	template.SetDefaults(defaulted)
	errs = append(errs, podvalidation.Validate(defaulted, path)...)
	refused, _ := template.Check(defaulted, path)
	for _, err := range refused {
		if !slices.ContainsFunc(errs, func(said *field.Error) bool { return said.Error() == err.Error() }) {
			errs = append(errs, err)
		}
	}
	return errs
}
