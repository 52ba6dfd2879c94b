// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
	"fmt"
	"net/http"
	"strings"
	"time"
	"unique"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
)

const (
	resourceNodeUsages     = "nodeusages"
	resourceWorkloadUsages = "workloadusages"
	// maxUsageBody is more than MaxNodeUsageWorkloads workloads of some containers take.
	maxUsageBody = 2 << 20
)

// usageRoutes are what the front proxy may ask for about usage. RBAC has decided who may read.
func (h *handler) usageRoutes(mux *http.ServeMux) {
	nodes, workloads := pathVersion+"/"+resourceNodeUsages, "/"+resourceWorkloadUsages
	mux.HandleFunc("POST "+nodes, h.resource(resourceNodeUsages, h.takeUsage))
	mux.HandleFunc("GET "+nodes, h.resource(resourceNodeUsages, h.reading(resourceNodeUsages, h.listNodeUsages)))
	mux.HandleFunc("GET "+nodes+"/{name}", h.resource(resourceNodeUsages, h.reading(resourceNodeUsages, h.getNodeUsage)))
	mux.HandleFunc("GET "+pathVersion+workloads, h.resource(resourceWorkloadUsages, h.reading(resourceWorkloadUsages, h.listWorkloadUsages)))
	mux.HandleFunc("GET "+pathVersion+"/namespaces/{namespace}"+workloads, h.resource(resourceWorkloadUsages, h.reading(resourceWorkloadUsages, h.listWorkloadUsages)))
	mux.HandleFunc("GET "+pathVersion+"/namespaces/{namespace}"+workloads+"/{name}", h.resource(resourceWorkloadUsages, h.reading(resourceWorkloadUsages, h.getWorkloadUsage)))
}

// reading answers a read within the bound of who asks.
func (h *handler) reading(resource string, answer serve) serve {
	return func(w http.ResponseWriter, req *http.Request, u user.Info) *metav1.Status {
		origin := originOf(u)
		done, err := h.bounds.reads.enter(place{user: origin}, origin)
		if err != nil {
			return statusOf(resource, req.PathValue("name"), err)
		}
		defer done()
		return answer(w, req, u)
	}
}

// takeUsage takes what the shim of a node says that it uses.
func (h *handler) takeUsage(w http.ResponseWriter, req *http.Request, u user.Info) *metav1.Status {
	c, err := bound(u)
	if err != nil {
		return statusOf(resourceNodeUsages, "", err)
	}
	done, err := h.bounds.usages.take(c)
	if err != nil {
		return statusOf(resourceNodeUsages, c.node, err)
	}
	defer done()
	// By the cache, where it knows the Node: what a node uses is no secret of another.
	if err := h.gate.still(req.Context(), c); err != nil {
		return statusOf(resourceNodeUsages, c.node, err)
	}
	posted, err := readUsage(w, req)
	if err != nil {
		return statusOf(resourceNodeUsages, c.node, err)
	}
	if posted.Name != c.node {
		return statusOf(resourceNodeUsages, posted.Name, refuse("the token of %s is bound to node %s, not to %s", u.GetName(), c.node, posted.Name))
	}
	h.usages.set(c.node, h.nodeUsedOf(posted))
	answer := &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess, Code: http.StatusCreated}
	respond(w, http.StatusCreated, answer)
	return nil
}

// readUsage reads and checks what is posted.
func readUsage(w http.ResponseWriter, req *http.Request) (*v1alpha1.NodeUsage, error) {
	posted := &v1alpha1.NodeUsage{}
	if err := readBody(w, req, resourceNodeUsages, "NodeUsage", maxUsageBody, posted); err != nil {
		return nil, err
	}
	if err := checkUsage(posted); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return posted, nil
}

// checkUsage names the field that is wrong.
func checkUsage(posted *v1alpha1.NodeUsage) error {
	if n := len(posted.Workloads); n > v1alpha1.MaxNodeUsageWorkloads {
		return fmt.Errorf("workloads: %d are more than %d", n, v1alpha1.MaxNodeUsageWorkloads)
	}
	for i := range posted.Workloads {
		w := &posted.Workloads[i]
		if n := len(w.Containers); n > v1alpha1.MaxUsageContainers {
			return fmt.Errorf("workloads[%d].containers: %d are more than %d", i, n, v1alpha1.MaxUsageContainers)
		}
		for j := range w.Containers {
			if wrong := validation.IsDNS1123Label(w.Containers[j].Name); len(wrong) > 0 {
				return fmt.Errorf("workloads[%d].containers[%d].name: %s", i, j, strings.Join(wrong, "; "))
			}
		}
	}
	return nil
}

// nodeUsedOf keeps of a post what is known to be on the node.
func (h *handler) nodeUsedOf(posted *v1alpha1.NodeUsage) *nodeUsed {
	n := &nodeUsed{received: time.Now(), at: posted.Timestamp.Time, window: posted.Window.Duration, used: usedOf(posted.Usage)}
	for i := range posted.Workloads {
		p := &posted.Workloads[i]
		workload, found := h.workloads.WorkloadOf(posted.Name, p.Namespace, p.Name)
		if !found {
			continue // it has just been deleted, or was never there
		}
		w := workloadUsed{
			namespace: unique.Make(p.Namespace), workload: unique.Make(workload), name: strings.Clone(p.Name),
			used: usedOf(p.Usage), containers: make([]containerUsed, 0, len(p.Containers)),
		}
		for j := range p.Containers {
			w.containers = append(w.containers, containerUsed{unique.Make(p.Containers[j].Name), usedOf(p.Containers[j].Usage)})
		}
		n.managed.add(w.used)
		n.workloads = append(n.workloads, w)
	}
	return n
}

// unsupported refuses what a list does not do.
func unsupported(req *http.Request) error {
	query := req.URL.Query()
	if watch := query.Get("watch"); watch != "" && watch != "false" && watch != "0" {
		return apierrors.NewBadRequest("usage cannot be watched")
	}
	if query.Get("labelSelector") != "" || query.Get("fieldSelector") != "" {
		return apierrors.NewBadRequest("usage cannot be selected by labels or fields")
	}
	return nil
}

func (h *handler) listNodeUsages(w http.ResponseWriter, req *http.Request, _ user.Info) *metav1.Status {
	if err := unsupported(req); err != nil {
		return statusOf(resourceNodeUsages, "", err)
	}
	respond(w, http.StatusOK, &v1alpha1.NodeUsageList{TypeMeta: typeOf("NodeUsageList"), Items: h.allNodeUsages(w, req, "")})
	return nil
}

func (h *handler) getNodeUsage(w http.ResponseWriter, req *http.Request, _ user.Info) *metav1.Status {
	name := req.PathValue("name")
	found := h.allNodeUsages(w, req, name)
	if len(found) == 0 {
		return statusOf(resourceNodeUsages, name, apierrors.NewNotFound(v1alpha1Resource(resourceNodeUsages), name))
	}
	respond(w, http.StatusOK, &found[0])
	return nil
}

func (h *handler) listWorkloadUsages(w http.ResponseWriter, req *http.Request, _ user.Info) *metav1.Status {
	if err := unsupported(req); err != nil {
		return statusOf(resourceWorkloadUsages, "", err)
	}
	respond(w, http.StatusOK, &v1alpha1.WorkloadUsageList{
		TypeMeta: typeOf("WorkloadUsageList"), Items: h.allWorkloadUsages(w, req, req.PathValue("namespace"), ""),
	})
	return nil
}

func (h *handler) getWorkloadUsage(w http.ResponseWriter, req *http.Request, _ user.Info) *metav1.Status {
	name := req.PathValue("name")
	found := h.allWorkloadUsages(w, req, req.PathValue("namespace"), name)
	if len(found) == 0 {
		return statusOf(resourceWorkloadUsages, name, apierrors.NewNotFound(v1alpha1Resource(resourceWorkloadUsages), name))
	}
	respond(w, http.StatusOK, &found[0])
	return nil
}
