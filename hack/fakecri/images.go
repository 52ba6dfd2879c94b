// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fakecri

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const imageSize = 4096

// ImageStatus implements CRI.
func (r *Runtime) ImageStatus(_ context.Context, req *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name, byID := strings.CutPrefix(req.GetImage().GetImage(), "sha256:")
	if _, err := r.fail("ImageStatus"); err != nil && !byID {
		return nil, err
	}
	if !r.Images[name] {
		return &runtimeapi.ImageStatusResponse{}, nil
	}
	if r.asRecorded {
		return &runtimeapi.ImageStatusResponse{Image: &runtimeapi.Image{Id: name, Spec: req.GetImage(), RepoTags: []string{name}}}, nil
	}
	image := &runtimeapi.Image{Id: "sha256:" + name, RepoTags: []string{name}, Size: imageSize, Uid: &runtimeapi.Int64Value{}}
	switch {
	case strings.Contains(name, "/web:"):
		image.Uid.Value = 1001
	case strings.Contains(name, "/db:"):
		image.Uid, image.Username = nil, "dbuser"
	}
	return &runtimeapi.ImageStatusResponse{Image: image}, nil
}

// PullImage implements CRI. A failing pull takes as long as another.
func (r *Runtime) PullImage(ctx context.Context, req *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	r.mu.Lock()
	image := req.GetImage().GetImage()
	kind, failure := r.fail("PullImage", image)
	delete(r.failures, "ImageStatus/") // what is known after a pull may come from a cache
	r.record("PullImage", "", "%s error=%q", image, kind)
	r.mu.Unlock()
	select {
	case <-time.After(r.pull):
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if failure != nil {
		return nil, failure
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Images[image] = true
	return &runtimeapi.PullImageResponse{ImageRef: "sha256:" + image}, nil
}

// Version implements CRI.
func (*Runtime) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: Name, RuntimeVersion: "1.0.0", RuntimeApiVersion: "v1"}, nil
}

// headers are those of a request, sorted. The version in the kubelet's own agent is
// that of its build.
func headers(req *http.Request) string {
	var out strings.Builder
	out.WriteString(" host=" + req.Host)
	for _, name := range slices.Sorted(maps.Keys(req.Header)) {
		value := strings.Join(req.Header[name], ",")
		if name == "User-Agent" && strings.HasPrefix(value, "kube-lifecycle/") {
			value = "kube-lifecycle/"
		}
		fmt.Fprintf(&out, " %s=%s", name, value)
	}
	return out.String()
}

// Do answers the requests of httpGet hooks.
func (r *Runtime) Do(req *http.Request) (*http.Response, error) {
	words := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	r.mu.Lock()
	hook := r.hook(words)
	r.record("HTTPRequest", words[len(words)-1], "%s %s%s", req.Method, req.URL, headers(req))
	r.mu.Unlock()
	if err := hook.take(req.Context()); err != nil {
		return nil, err
	}
	if hook.HTTPOnHTTPS && req.URL.Scheme == "https" {
		return nil, &url.Error{Op: "Get", URL: req.URL.String(), Err: errors.New("http: server gave HTTP response to HTTPS client")}
	}
	if hook.Error != "" {
		return nil, errHook
	}
	code := http.StatusOK
	if hook.ExitCode != 0 {
		code = http.StatusInternalServerError
	}
	return &http.Response{StatusCode: code, Body: http.NoBody, Request: req}, nil
}
