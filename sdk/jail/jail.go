package jail

import (
	"cmp"
	"context"
	"io/fs"
	"maps"
	"slices"
	"time"
)

// Walls runs isolated commands: a [Jail], or a container engine.
type Walls interface {
	// Run runs a command to its end. An error means that it could not be run at all, or that ctx ended.
	Run(ctx context.Context, spec *Spec) (*Result, error)
	// Layers returns the active layers, and the missing ones with the reason.
	Layers() ([]string, map[string]string)
}

// Options configure a jail. The zero value uses every layer that is available.
type Options struct {
	// Temp is the parent of temporary directories, which only runs without
	// namespaces need; empty means the system's.
	Temp string
	// NoNamespaces behaves as if the machine did not allow namespaces.
	NoNamespaces bool
}

// Spec describes a run: the command, its work tree, and what it can access.
type Spec struct {
	// Dir is the work tree, an absolute path. The command sees it at the same path
	// and can write to it; the writes are discarded.
	Dir string
	// InPlace makes the writes to Dir persist. The command then keeps the program's
	// uid, since another could not write there. Limits.Disk and Limits.Files then
	// limit how much Dir has grown since the Jail's first run in it.
	InPlace bool
	// Changes are applied to the tree before the command starts.
	Changes []Change
	// Argv is the command; it starts in Dir. Argv[0] must be absolute or be found in
	// the PATH of Env.
	Argv []string
	// Env is the whole environment, except for HOME and TMPDIR, which the jail sets.
	Env []string
	// ReadOnly are the paths that the command can read, besides Dir.
	ReadOnly []string
	// Writable are directories that the command can write to, besides Dir; the writes
	// persist. They need InPlace, or must be writable for everybody.
	Writable []string
	// Caches are directories that the command can read and write; the writes are
	// discarded, except for Cache.Keep.
	Caches []Cache
	// Reports are files below Dir to return when the command has ended. Names with a *
	// are patterns (see [Match]).
	Reports []string
	// Guarded are files below Dir that the command must not write, replace or remove.
	// Result.Touched lists those that it did, Result.Disturbed those that another process changed meanwhile.
	Guarded []string
	// Require are layers and aims (see [Names]) without which the command is not
	// started; the run then ends with EndRefused.
	Require []string
	// CombineOutput writes standard error to Result.Stdout too, in the order of writing.
	CombineOutput bool
	// Limits limit the run; a zero field means the default.
	Limits Limits
}

// Cache is a directory that a command finds filled and can write to.
type Cache struct {
	// Path is the directory's path for the command.
	Path string
	// Lower are the directories whose content the command finds there, the first taking
	// precedence. They are not written to; missing ones are skipped.
	//
	// Without a mount namespace only the first that exists is used. The cache starts with
	// symbolic links to its entries, or empty above 5,000 files. The first of several
	// directories is assumed to hold what trusted runs kept: its limit is 50,000, and its
	// links are pooled for reuse in a directory beside it whose name ends in ".links". If
	// Deep is set, or links cannot be made or confined, the cache starts as a copy, or
	// empty above 64 MiB (1 GiB for the first of several).
	Lower []string
	// Deep means that folders below the first level are written to as well.
	Deep bool
	// Files are written into the cache before the command starts.
	Files map[string][]byte
	// Keep, if set, is a directory into which the cache's new files are copied when the
	// command exits or times out. It is for runs of trusted code only.
	Keep string
}

// Change is a file to write or delete. Path is relative to the tree and slash-separated.
type Change struct {
	Path   string      `json:"path"`
	Data   []byte      `json:"data,omitempty"`
	Mode   fs.FileMode `json:"mode,omitempty"`
	Delete bool        `json:"delete,omitempty"`
}

// Limits limit one run. The zero value of a field means the default.
type Limits struct {
	Wall      time.Duration // default 60 s
	CPU       time.Duration // per process; default 4 times Wall
	Memory    int64         // bytes of the whole run, without files on tmpfs; default 4 GiB
	Disk      int64         // bytes written to the tree, caches and temporary files; default 2 GiB
	Files     int           // files and folders created there; default 100000
	Processes int           // concurrent; default 512
	OpenFiles int           // per process; default 4096
	Output    int           // bytes kept of each of stdout and stderr; default 4 MiB
}

// WithDefaults returns the limits with defaults in place of zeros.
func (l Limits) WithDefaults() Limits {
	l.Wall = cmp.Or(max(l.Wall, 0), time.Minute)
	l.CPU = cmp.Or(max(l.CPU, 0), 4*l.Wall)
	l.Memory = cmp.Or(max(l.Memory, 0), 4<<30)
	l.Disk = cmp.Or(max(l.Disk, 0), 2<<30)
	l.Files = cmp.Or(max(l.Files, 0), 100_000)
	l.Processes = cmp.Or(max(l.Processes, 0), 512)
	l.OpenFiles = cmp.Or(max(l.OpenFiles, 0), 4096)
	l.Output = cmp.Or(max(l.Output, 0), 4<<20)
	return l
}

// End is the way a run ended.
type End string

// The ends of a run.
const (
	EndExit      End = "exit"      // the command exited or was ended by a signal
	EndTimeout   End = "timeout"   // Limits.Wall
	EndMemory    End = "memory"    // Limits.Memory
	EndProcesses End = "processes" // Limits.Processes
	EndOutput    End = "output"    // far more output than Limits.Output
	EndDisk      End = "disk"      // Limits.Disk or Limits.Files; where the kernel enforces them, the command sees a full disk instead
	EndLost      End = "lost"      // the jail's first process was killed from outside
	EndRefused   End = "refused"   // a layer of Spec.Require is unavailable: nothing was started
)

// Result is the outcome of a run.
type Result struct {
	End End
	// ExitCode is the command's exit code, or 128 plus the signal that ended it; -1
	// if the run was lost.
	ExitCode int
	// Stdout and Stderr are truncated to Limits.Output; Truncated is true if either was.
	Stdout, Stderr []byte
	Truncated      bool
	// Reports has the files of Spec.Reports that exist, up to 16 MiB each, and up to
	// 10,000 files that match patterns.
	Reports map[string][]byte
	// Touched are the files of Spec.Guarded that the command wrote, replaced or removed.
	Touched []string
	// Disturbed are the files of Spec.Guarded that another process has written, replaced, removed or linked, or
	// whose mode or owner it has changed, while the command ran. Without an overlay none is known: the command runs
	// in a copy.
	Disturbed []string
	// Lacks are the names of Spec.Require that are unavailable.
	Lacks []string
	// LeftOver is the number of processes still alive when the command ended.
	LeftOver int
	// Layers were active; Missing were unavailable, with the reason.
	Layers  []string
	Missing map[string]string
	// Duration is the time of the whole run, Command that of the command alone.
	Duration, Command time.Duration
	// CPU is the processor time of the run, including the jail's own; 0 if unknown.
	CPU time.Duration
}

// The layers; see the package comment.
const (
	LayerUser     = "user"
	LayerPID      = "pid"
	LayerMount    = "mount"
	LayerNetwork  = "network"
	LayerIPC      = "ipc"
	LayerLandlock = "landlock"
	LayerSeccomp  = "seccomp"
	LayerRlimits  = "rlimits"
	layerWatchdog = "watchdog"
	LayerCgroup   = "cgroup"
)

var layers = []string{
	LayerUser, LayerPID, LayerMount, LayerNetwork, LayerIPC,
	LayerLandlock, LayerSeccomp, LayerRlimits, layerWatchdog, LayerCgroup,
}

// aims are names besides layers that a policy can require. Each is met by any one of its layers.
var aims = map[string][]string{
	"filesystem": {LayerMount, LayerLandlock},
	"processes":  {LayerPID, LayerCgroup},
	"memory":     {LayerCgroup, layerWatchdog},
}

// Names returns every name that can be required: the layers and the aims filesystem, processes and
// memory.
func Names() []string {
	names := slices.AppendSeq(slices.Clone(layers), maps.Keys(aims))
	slices.Sort(names)
	return names
}

// Lacks returns the required names that the layers do not meet.
func Lacks(required, layers []string) []string {
	var lacks []string
	for _, name := range required {
		if !slices.ContainsFunc(append(slices.Clip(aims[name]), name), func(layer string) bool { return slices.Contains(layers, layer) }) {
			lacks = append(lacks, name)
		}
	}
	return lacks
}
