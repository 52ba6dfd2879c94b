// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/statefile"
)

// checkpointVersion is the version of the file format. A file of another version
// is moved aside like a corrupt one.
const checkpointVersion = 1

// corruptSuffix is added to the name of a file whose content is damaged.
const corruptSuffix = ".corrupt"

// Checkpoint is what a worker must know after a restart of the shim and cannot
// read from the container runtime. It holds no secrets.
type Checkpoint struct {
	Version  int      `json:"version"`
	Identity Identity `json:"identity"`
	// ClusterID is the cluster that the workload came from.
	ClusterID string `json:"clusterID,omitempty"`
	// BootID reports whether containers of then can still run.
	BootID string `json:"bootID,omitempty"`
	State  State  `json:"state"`
	// Pod is the last accepted desired pod, with its deletion.
	Pod *corev1.Pod `json:"pod,omitempty"`
	// Previous is the pod before, as long as something of it may run.
	Previous *corev1.Pod `json:"previous,omitempty"`
	// PodHash identifies the template of Pod, and TemplateHash the one that runs.
	PodHash      string `json:"podHash,omitempty"`
	TemplateHash string `json:"templateHash,omitempty"`
	// Ran: the runtime had something of the workload, so that the node is not asked to admit
	// it.
	Ran bool `json:"ran,omitempty"`
	// Generation of the latest object seen.
	Generation int64 `json:"generation,omitempty"`
	// PodStatus and Status are the last ones computed. Status holds the kill
	// records: those under way with their phase and absolute deadline.
	PodStatus *corev1.PodStatus           `json:"podStatus,omitempty"`
	Status    v1alpha1.NodeWorkloadStatus `json:"status"`
	// Active is when the pod became active, counted on the boot of BootID.
	Active *plan.Activity `json:"active,omitempty"`
	// Details are what the probes said that asked for kills under way, by the
	// kill's ID.
	Details map[string]string `json:"details,omitempty"`
	// KillNotes belong to the kills under way, by the kill's ID.
	KillNotes map[string]plan.KillNote `json:"killNotes,omitempty"`
	// Outbox are the events that are due once the status is in the API.
	Outbox outbox `json:"outbox,omitzero"`
	// Order is that of the instances of one name: the older has the smaller one.
	Order int64 `json:"order,omitempty"`
	// Backoff by plan.BackoffKey.
	Backoff map[string]*plan.Backoff `json:"backoff,omitempty"`
	// Actuated is what running containers were given since their creation, by
	// container ID.
	Actuated map[string]plan.Resources `json:"actuated,omitempty"`
	// DiskLimits are those that what runs was started with; nil if they are not known.
	DiskLimits *plan.DiskLimits `json:"diskLimits,omitempty"`
	// RestartBackoff is the workload's own policy, nil if it has none.
	RestartBackoff *v1alpha1.RestartBackoff `json:"restartBackoff,omitempty"`
	// Requests are the KillRequests of the object; what is noted about them is in Status.
	Requests []v1alpha1.NodeRequest `json:"requests,omitempty"`
	// RequestTimes are what waits of KillRequests are counted from, on the boot of BootID.
	RequestTimes plan.RequestTimes `json:"requestTimes,omitempty"`
	// Owed are containers that were ended on request or for a change and are to run again.
	Owed plan.Owed `json:"owed,omitempty"`
	// Exits are how containers ended whose instance the runtime may have lost.
	Exits plan.Exits `json:"exits,omitempty"`
	// Gone: the object was deleted without its finalizer.
	Gone bool `json:"gone,omitempty"`
	// Orphan: the containers were known from the runtime only.
	Orphan bool `json:"orphan,omitempty"`
	// Grace is the grace period of the termination, in seconds.
	Grace int64 `json:"grace,omitempty"`
	// GraceSource is where Grace comes from.
	GraceSource v1alpha1.GraceSource `json:"graceSource,omitempty"`
	// RequestedBy asked for the termination.
	RequestedBy string `json:"requestedBy,omitempty"`
	// Termination is the end that was requested by other than the API.
	Termination *plan.Termination `json:"termination,omitempty"`
}

// Checkpoints is a folder with one file for each workload.
type Checkpoints struct {
	dir string
	log logr.Logger
}

// NewCheckpoints returns the checkpoints in a folder, which is created if it is
// missing.
func NewCheckpoints(dir string, log logr.Logger) (*Checkpoints, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the folder of the checkpoints: %w", err)
	}
	return &Checkpoints{dir: dir, log: log}, nil
}

// Save writes a checkpoint so that either the old or the new content survives a
// crash.
func (c *Checkpoints) Save(cp *Checkpoint) error {
	cp.Version = checkpointVersion
	data, err := json.Marshal(cp)
	if err != nil {
		return fmt.Errorf("encode checkpoint of %s: %w", cp.Identity.UID, err)
	}
	path, err := c.path(cp.Identity.UID)
	if err != nil {
		return err
	}
	if err := statefile.Replace(path, data); err != nil {
		return fmt.Errorf("write checkpoint of %s: %w", cp.Identity.UID, err)
	}
	return nil
}

// Remove deletes the checkpoint of a workload; a missing one is no error.
func (c *Checkpoints) Remove(uid types.UID) error {
	path, err := c.path(uid)
	if err != nil {
		return err
	}
	if err := statefile.Remove(path); err != nil {
		return fmt.Errorf("remove checkpoint of %s: %w", uid, err)
	}
	return nil
}

// Load returns all checkpoints. One whose content is damaged, or of another version,
// is logged and moved aside. One that the disk does not give is an error, and stays:
// it may hold kills under way, and the disk may give it the next time.
func (c *Checkpoints) Load() ([]*Checkpoint, error) {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return nil, fmt.Errorf("read checkpoints: %w", err)
	}
	var found []*Checkpoint
	for _, e := range entries {
		path := filepath.Join(c.dir, e.Name())
		switch {
		case strings.HasSuffix(e.Name(), statefile.TemporarySuffix):
			if err := os.Remove(path); err != nil {
				return nil, fmt.Errorf("remove half a checkpoint: %w", err)
			}
		case strings.HasSuffix(e.Name(), checkpointSuffix):
			cp, err := c.read(e, path)
			if errors.Is(err, errUnread) {
				return nil, err
			}
			if err != nil {
				c.log.Error(err, "Checkpoint is damaged; moving it aside", "path", path)
				if err := os.Rename(path, path+corruptSuffix); err != nil {
					return nil, fmt.Errorf("move corrupt checkpoint aside: %w", err)
				}
				continue
			}
			found = append(found, cp)
		}
	}
	return found, nil
}

// errUnread says that the disk did not give a file.
var errUnread = errors.New("read checkpoint")

// read reads a checkpoint. A folder in its place is damage.
func (c *Checkpoints) read(e os.DirEntry, path string) (*Checkpoint, error) {
	if e.IsDir() {
		return nil, errors.New("it is a folder")
	}
	data, err := os.ReadFile(path) //nolint:gosec // the path is a name found in our own folder
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnread, err)
	}
	return decodeCheckpoint(data, e.Name())
}

const checkpointSuffix = ".json"

// decodeCheckpoint decodes the content of a file; its error says what is damaged.
func decodeCheckpoint(data []byte, name string) (*Checkpoint, error) {
	cp := &Checkpoint{}
	if err := json.Unmarshal(data, cp); err != nil {
		return nil, err
	}
	if cp.Version != checkpointVersion {
		return nil, fmt.Errorf("version %d is not %d", cp.Version, checkpointVersion)
	}
	if want := string(cp.Identity.UID) + checkpointSuffix; cp.Identity.UID == "" || name != want {
		return nil, fmt.Errorf("the file is about workload %q", cp.Identity.UID)
	}
	switch cp.State {
	case Syncing, Terminating, Terminated:
	default:
		return nil, fmt.Errorf("state %q is unknown", cp.State)
	}
	return cp, nil
}

func (c *Checkpoints) path(uid types.UID) (string, error) {
	name := string(uid)
	if name == "" || name != filepath.Base(name) || strings.HasPrefix(name, ".") {
		return "", fmt.Errorf("UID %q cannot be a file name", name)
	}
	return filepath.Join(c.dir, name+checkpointSuffix), nil
}
