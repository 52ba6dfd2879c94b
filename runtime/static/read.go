// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package static

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/managedworkload/managedworkload/api/objects"
	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/manifest"
)

var (
	// errUnsettled says that a file has changed just now and may not be whole yet.
	errUnsettled = errors.New("it has just been written")
	// errRestless says that a file never settles.
	errRestless = fmt.Errorf("it keeps being written: it is read once it has not changed for %v", settled)
)

// file is what was read of a file.
type file struct {
	// nw is the object in it, nil with err.
	nw  *template.Workload
	err error
	// since is the first look that found the file unsettled, with errUnsettled.
	since time.Time
}

// read reads a file.
func (s *Source) read(path string, now time.Time) file {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return file{err: err}
	case !info.Mode().IsRegular():
		return file{err: errors.New("it is not a regular file")}
	}
	if age := now.Sub(info.ModTime()); age >= 0 && age < settled {
		return file{err: errUnsettled}
	}
	nw, err := s.parse(path)
	return file{nw: nw, err: err}
}

// parse reads the object of a file.
func (s *Source) parse(path string) (_ *template.Workload, err error) {
	in, err := os.Open(path) //nolint:gosec // It is in the directory that the flag names.
	if err != nil {
		return nil, err
	}
	defer in.Close() //nolint:errcheck // Closing what was only read loses nothing.
	data, err := io.ReadAll(io.LimitReader(in, manifest.MaxSize+1))
	if err != nil {
		return nil, err
	}
	nw, err := manifest.Reader{Node: s.cfg.Node, Static: true}.Read(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if err := manifest.Locate(data, check(nw)); err != nil {
		return nil, err
	}
	uid, err := uidOf(data, s.cfg.Node)
	if err != nil {
		return nil, err
	}
	nw.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeWorkload"}
	nw.ObjectMeta = metav1.ObjectMeta{Namespace: nw.Namespace, Name: nw.Name, Labels: nw.Labels, UID: uid, Generation: 1}
	nw.Status = v1alpha1.NodeWorkloadStatus{}
	return nw, nil
}

// check finds what a workload without an API server cannot have.
func check(nw *template.Workload) field.ErrorList {
	var errs field.ErrorList
	meta, spec := field.NewPath("metadata"), field.NewPath("spec")
	for _, name := range []struct {
		path  *field.Path
		value string
		valid func(string) []string
	}{
		{meta.Child("name"), nw.Name, validation.IsDNS1123Subdomain},
		{meta.Child("namespace"), nw.Namespace, validation.IsDNS1123Label},
	} {
		for _, problem := range name.valid(name.value) {
			errs = append(errs, field.Invalid(name.path, name.value, problem))
		}
	}
	inTemplate := spec.Child("template", "spec")
	pod := &nw.Template.Spec
	for _, path := range objects.Paths(pod, inTemplate) {
		errs = append(errs, field.Forbidden(path, noObjects(path)))
	}
	if pod.ServiceAccountName != "" {
		errs = append(errs, field.Forbidden(inTemplate.Child("serviceAccountName"), "a static workload has no service account: leave it out"))
	}
	if pod.RuntimeClassName != nil {
		errs = append(errs, field.Forbidden(inTemplate.Child("runtimeClassName"), "a static workload has no API server to get runtime classes from: leave it out, and the runtime's default handler is used"))
	}
	annotations := spec.Child("template", "metadata", "annotations")
	for _, key := range slices.Sorted(maps.Keys(nw.Template.Annotations)) {
		if strings.HasPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix) {
			errs = append(errs, field.Forbidden(annotations.Key(key), "a static workload has no API server to make a profile of it: use securityContext.appArmorProfile"))
		}
	}
	return errs
}

// noObjects says why a workload cannot have what a field refers to, and what it can have.
func noObjects(path *field.Path) string {
	const none = "a static workload has no API server to get ConfigMaps, Secrets and tokens from: "
	switch name := path.String(); {
	case strings.HasSuffix(name, ".imagePullSecrets"):
		return none + "give the runtime the login of the registry, or import the image"
	case strings.HasSuffix(name, ".automountServiceAccountToken"):
		return none + "leave it out, or set false"
	}
	return none + "use env with a value, or a hostPath volume"
}

// uidOf is the UID of what a file says on a node, whatever its comments and the order of its
// fields are. Another content is another instance. (kubelet config/common.go:applyDefaults)
func uidOf(data []byte, node string) (types.UID, error) {
	document, err := manifest.Document(data)
	if err != nil {
		return "", err
	}
	var content any
	if err := yaml.Unmarshal(document, &content); err != nil {
		return "", err
	}
	canonical, err := json.Marshal([]any{node, content})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return types.UID(v1alpha1.StaticUIDPrefix + hex.EncodeToString(sum[:16])), nil
}
