// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package vectors

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	kjson "sigs.k8s.io/json"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A recorded definition that is the pod's, and one that is not.
const (
	definitionSame    = "vector:same"
	definitionChanged = "vector:changed"
)

type input struct {
	ID                   *string     `json:"id"`
	Pod                  *corev1.Pod `json:"pod"`
	PodStatus            *podStatus  `json:"podStatus"`
	Probes               probes      `json:"probes"`
	RestartAllContainers bool        `json:"restartAllContainers"`
	// ActuatedContainerResources by container name; of running containers only.
	ActuatedContainerResources map[string]corev1.ResourceRequirements `json:"actuatedContainerResources"`
	// Output is a recorded answer, which is not read.
	Output json.RawMessage `json:"output"`
}

type podStatus struct {
	ID                 string      `json:"id"`
	Name               string      `json:"name"`
	Namespace          string      `json:"namespace"`
	IPs                []string    `json:"ips"`
	Sandboxes          []sandbox   `json:"sandboxes"`
	Containers         []container `json:"containers"`
	ActiveContainerIDs []string    `json:"activeContainerIDs"`
}

type sandbox struct {
	ID               string            `json:"id"`
	State            plan.SandboxState `json:"state"`
	Attempt          uint32            `json:"attempt"`
	CreatedAt        int64             `json:"createdAt"`
	NetworkNamespace string            `json:"networkNamespace"`
	Network          *network          `json:"network"`
}

type network struct {
	IP            string   `json:"ip"`
	AdditionalIPs []string `json:"additionalIPs"`
}

type container struct {
	ID          string              `json:"id"`
	Name        string              `json:"name"`
	State       plan.ContainerState `json:"state"`
	ExitCode    int32               `json:"exitCode"`
	Reason      string              `json:"reason"`
	Message     string              `json:"message"`
	HashMatches *bool               `json:"hashMatches"`
	// Hash is the kubelet's own, which is not read.
	Hash         json.RawMessage `json:"hash"`
	RestartCount int             `json:"restartCount"`
	CreatedAt    metav1.Time     `json:"createdAt"`
	StartedAt    metav1.Time     `json:"startedAt"`
	FinishedAt   metav1.Time     `json:"finishedAt"`
	Image        string          `json:"image"`
	ImageID      string          `json:"imageID"`
	ImageRef     string          `json:"imageRef"`
}

type probes struct {
	Liveness map[string]plan.ProbeResult `json:"liveness"`
	Startup  map[string]plan.ProbeResult `json:"startup"`
}

// Decode reads one line. Its error names the field that is at fault.
func Decode(line []byte) (id string, in plan.Input, err error) {
	var decoded input
	unknown, err := kjson.UnmarshalStrict(line, &decoded)
	if err = errors.Join(append(unknown, err)...); err != nil {
		return "", plan.Input{}, fmt.Errorf("decode input: %w", err)
	}
	return decoded.input()
}

// DecodeRecorded reads a line as it was recorded, which holds the answer and more
// of the kubelet's state than the plan reads.
func DecodeRecorded(line []byte) (id string, in plan.Input, err error) {
	var decoded input
	if err := kjson.UnmarshalCaseSensitivePreserveInts(line, &decoded); err != nil {
		return "", plan.Input{}, fmt.Errorf("decode input: %w", err)
	}
	return decoded.input()
}

// input checks what was decoded and returns what the plan reads.
func (in *input) input() (id string, read plan.Input, err error) {
	if err := in.check(); err != nil {
		return "", plan.Input{}, err
	}
	return *in.ID, plan.Input{
		Pod:                  in.Pod,
		Observed:             in.PodStatus.observed(),
		Probes:               in.Probes.byContainer(),
		Definitions:          definitions(in.Pod),
		Actuated:             in.actuated(),
		RestartAllContainers: in.RestartAllContainers,
	}, nil
}

func (in *input) check() error {
	switch {
	case in.ID == nil:
		return errors.New("id: must be set")
	case in.Pod == nil:
		return errors.New("pod: must be set")
	case in.PodStatus == nil:
		return errors.New("podStatus: must be set")
	}
	return errors.Join(checkPod(in.Pod), in.PodStatus.check(), in.Probes.check())
}

// DecodePodStatus reads a podStatus.
func DecodePodStatus(data []byte) (*plan.PodStatus, error) {
	var s podStatus
	if err := utiljson.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("decode podStatus: %w", err)
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	return s.observed(), nil
}

// observed returns the status as the plan reads it.
func (s *podStatus) observed() *plan.PodStatus {
	observed := &plan.PodStatus{
		ID:                 s.ID,
		Name:               s.Name,
		Namespace:          s.Namespace,
		IPs:                s.IPs,
		ActiveContainerIDs: s.ActiveContainerIDs,
	}
	for i := range s.Sandboxes {
		observed.Sandboxes = append(observed.Sandboxes, s.Sandboxes[i].observed())
	}
	for i := range s.Containers {
		observed.Containers = append(observed.Containers, s.Containers[i].observed())
	}
	return observed
}

func (s *sandbox) observed() plan.SandboxStatus {
	status := plan.SandboxStatus{
		ID:               s.ID,
		State:            s.State,
		Attempt:          s.Attempt,
		CreatedAt:        time.Unix(0, s.CreatedAt).UTC(),
		NetworkNamespace: s.NetworkNamespace,
	}
	if s.Network != nil {
		status.Network = &plan.SandboxNetwork{IP: s.Network.IP, AdditionalIPs: s.Network.AdditionalIPs}
	}
	return status
}

func (c *container) observed() plan.ContainerStatus {
	return plan.ContainerStatus{
		ID:           c.ID,
		Name:         c.Name,
		State:        c.State,
		ExitCode:     c.ExitCode,
		Reason:       c.Reason,
		Message:      c.Message,
		CreatedAt:    c.CreatedAt.Time,
		StartedAt:    c.StartedAt.Time,
		FinishedAt:   c.FinishedAt.Time,
		Image:        c.Image,
		ImageID:      c.ImageID,
		ImageRef:     c.ImageRef,
		Hash:         c.definition(),
		RestartCount: c.RestartCount,
	}
}

// definition returns the hash the container was created with, empty if that is
// not known.
func (c *container) definition() string {
	switch {
	case c.HashMatches == nil:
		return ""
	case *c.HashMatches:
		return definitionSame
	default:
		return definitionChanged
	}
}

// definitions of a pod whose containers have the hashes that definition gives.
func definitions(pod *corev1.Pod) *plan.Definitions {
	defs := &plan.Definitions{Containers: map[string]string{}, Resources: map[string]plan.Resources{}}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			defs.Containers[list[i].Name] = definitionSame
			defs.Resources[list[i].Name] = plan.ResourcesOf(&list[i].Resources)
		}
	}
	return defs
}

// actuated is what the running containers were given last; of one that is not
// named that is nothing, as in the kubelet.
func (in *input) actuated() map[string]plan.Resources {
	actuated := map[string]plan.Resources{}
	for i := range in.PodStatus.Containers {
		c := &in.PodStatus.Containers[i]
		given := in.ActuatedContainerResources[c.Name]
		actuated[c.ID] = plan.ResourcesOf(&given)
	}
	return actuated
}

func (p *probes) byContainer() map[string]plan.ProbeResults {
	results := make(map[string]plan.ProbeResults, len(p.Liveness))
	for id, verdict := range p.Liveness {
		results[id] = plan.ProbeResults{Liveness: verdict}
	}
	for id, verdict := range p.Startup {
		r := results[id]
		r.Startup = verdict
		results[id] = r
	}
	return results
}
