// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
)

// The paths. The API server asks for that of the version when it looks whether the API is
// available, and makes its aggregated discovery from it. There is no OpenAPI: the API server
// takes its absence for an empty one.
const (
	pathGroups  = "/apis"
	pathGroup   = pathGroups + "/subresources.managedworkload.dev"
	pathVersion = pathGroup + "/v1alpha1"
)

func v1alpha1Resource(resource string) schema.GroupResource {
	return v1alpha1.GroupVersion.WithResource(resource).GroupResource()
}

func group() metav1.APIGroup {
	version := metav1.GroupVersionForDiscovery{GroupVersion: v1alpha1.GroupVersion.String(), Version: v1alpha1.GroupVersion.Version}
	return metav1.APIGroup{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: v1alpha1.GroupVersion.Group,
		Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
	}
}

func serveGroups(w http.ResponseWriter, _ *http.Request) {
	respond(w, http.StatusOK, &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{group()}})
}

func serveGroup(w http.ResponseWriter, _ *http.Request) { respond(w, http.StatusOK, group()) }

func serveResources(w http.ResponseWriter, _ *http.Request) {
	respond(w, http.StatusOK, &metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: v1alpha1.GroupVersion.String(),
		APIResources: []metav1.APIResource{
			{Name: resourceObjects, SingularName: "nodeobject", Kind: "NodeObject", Verbs: metav1.Verbs{"list", "watch"}},
			{Name: resourceToken, Namespaced: true, Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest", Verbs: metav1.Verbs{"create"}},
			{Name: resourceNodeUsages, SingularName: "nodeusage", Kind: "NodeUsage", Verbs: metav1.Verbs{"create", "get", "list"}},
			{Name: resourceWorkloadUsages, SingularName: "workloadusage", Namespaced: true, Kind: "WorkloadUsage", Verbs: metav1.Verbs{"get", "list"}},
		},
	})
}
