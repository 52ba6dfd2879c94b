// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// document is an object of a file.
type document struct {
	metav1.TypeMeta `json:",inline"`
	// Items are those of a list.
	Items []json.RawMessage `json:"items"`
	data  []byte
	// where is its place in the file: "document 2, item 1".
	where string
}

// documents are the objects of a file, also those of lists, but no empty ones. (kubectl apply
// takes the same.)
func documents(data []byte) ([]document, error) {
	var all []document
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		found, err := documentsOf(text, fmt.Sprintf("document %d", n))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
}

// documentsOf is one object, its items if it is a list, and none where there are only
// comments.
func documentsOf(data []byte, where string) ([]document, error) {
	var content any
	if err := yaml.Unmarshal(data, &content); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	if content == nil {
		return nil, nil
	}
	d := document{data: data, where: where}
	if err := yaml.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	if d.Kind != "List" && d.Kind != "ManagedWorkloadList" {
		return []document{d}, nil
	}
	var all []document
	for i, item := range d.Items {
		found, err := documentsOf(item, fmt.Sprintf("%s, item %d", where, i+1))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// choose returns the documents of a file that a command is about: those of a kind, such as
// "a DaemonSet". others says which documents are none. It is an error if all are.
func choose(data []byte, kind string, is func(*document) bool) (wanted []document, others []string, err error) {
	all, err := documents(data)
	if err != nil {
		return nil, nil, err
	}
	for _, d := range all {
		if is(&d) {
			wanted = append(wanted, d)
		} else {
			others = append(others, fmt.Sprintf("%s: kind %q of %q is not %s", d.where, d.Kind, d.APIVersion, kind))
		}
	}
	switch {
	case len(all) == 0:
		return nil, nil, fmt.Errorf("no %s in it", strings.TrimPrefix(kind, "a "))
	case len(wanted) == 0:
		return nil, nil, errors.New(others[0])
	}
	return wanted, others, nil
}

func (d *document) isWorkload() bool {
	return d.Kind == "ManagedWorkload" && d.GroupVersionKind().Group == v1alpha1.GroupVersion.Group
}

// decode reads a ManagedWorkload, strictly. Its namespace is that of the cluster unless it
// names one.
func (c *cluster) decode(d *document, namespaced bool) (*unstructured.Unstructured, error) {
	typed := &v1alpha1.ManagedWorkload{}
	if err := yaml.UnmarshalStrict(d.data, typed); err != nil {
		return nil, err
	}
	switch {
	case typed.Name == "":
		return nil, errors.New("metadata.name is missing")
	case namespaced && typed.Namespace != "" && typed.Namespace != c.namespace:
		return nil, fmt.Errorf("the namespace from the provided object %q does not match the namespace %q. You must pass '--namespace=%s' to perform this operation",
			typed.Namespace, c.namespace, typed.Namespace)
	}
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(d.data, &object.Object); err != nil {
		return nil, err
	}
	if typed.Namespace == "" {
		object.SetNamespace(c.namespace)
	}
	return object, nil
}
