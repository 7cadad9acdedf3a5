package jail

import (
	"cmp"
	"context"
	"io/fs"
	"maps"
	"slices"
	"time"
)

// Walls run commands to their end: a [Jail], or an engine of containers.
type Walls interface {
	// Run runs a command to its end. An error means that it could not be run at all, or that ctx ended.
	Run(ctx context.Context, spec *Spec) (*Result, error)
	// Layers returns the layers that hold, and those that do not, with the reason.
	Layers() ([]string, map[string]string)
}

// Options say how to make a jail. The zero value takes all that can be had.
type Options struct {
	// Temp is the folder for temporary ones, which only runs without namespaces
	// need; empty means the system's.
	Temp string
	// NoNamespaces does without namespaces, as where the machine refuses them.
	NoNamespaces bool
}

// Spec says what to run, on what, and what it may use.
type Spec struct {
	// Dir is the work tree, an absolute path. The command sees it at the same
	// path, may write to it, and the writes are discarded.
	Dir string
	// InPlace lets the writes to Dir stay. The command then keeps the uid of the
	// program: another could not write there. Limits.Disk and Limits.Files bound by
	// how much Dir has grown since the Jail's first run in it.
	InPlace bool
	// Changes are made to the tree before the command starts.
	Changes []Change
	// Argv is the command; it starts in Dir. Argv[0] must be absolute or be
	// found in the PATH of Env.
	Argv []string
	// Env is the whole environment. HOME and TMPDIR are set by the jail.
	Env []string
	// ReadOnly are the paths that the command may read, besides Dir.
	ReadOnly []string
	// Writable are directories that the command may write to, besides Dir; the
	// writes stay. They need InPlace, or to be writable for everybody.
	Writable []string
	// Caches are directories that the command may read and write; the writes
	// are discarded, unless the cache says otherwise.
	Caches []Cache
	// Reports are files below Dir to hand back when the command has ended; those with
	// a * are patterns (see [Match]).
	Reports []string
	// Guarded are files below Dir that the command must not write, replace or
	// remove: those that it did are in Result.Touched.
	Guarded []string
	// Require are layers and aims (see [Names]) without which the command is not
	// started: the run then ends with EndRefused.
	Require []string
	// CombineOutput has standard error in Result.Stdout, as it came.
	CombineOutput bool
	// Limits bound the run; a zero field means the default.
	Limits Limits
}

// Cache is a directory that a command finds filled and may write to.
type Cache struct {
	// Path is where the command sees it.
	Path string
	// Lower are the directories whose content it finds there, the first one
	// winning. They are not written to, and those that do not exist are left out.
	// Without a mount namespace the cache starts with links to what is in the first of
	// them, or empty when that is more than 5,000 files, or 50,000 in the first of several,
	// which is taken for what trusted runs kept: a folder beside it, with ".links" at the
	// end of its name, holds links that are used again. If it is Deep, or links cannot be
	// made or confined, it starts as a copy, or empty when that would be large: 64 MiB,
	// or a GiB for the first of several.
	Lower []string
	// Deep says that its folders below the first level are written to as well.
	Deep bool
	// Files are put into it before the command starts.
	Files map[string][]byte
	// Keep, when set, is a directory into which the new files of the cache are
	// copied when the command ends by itself or its time is up: for runs of trusted
	// code only.
	Keep string
}

// Change is one file to write or to delete. Path is relative to the tree and
// slash-separated.
type Change struct {
	Path   string      `json:"path"`
	Data   []byte      `json:"data,omitempty"`
	Mode   fs.FileMode `json:"mode,omitempty"`
	Delete bool        `json:"delete,omitempty"`
}

// Limits bound one run. The zero value of a field means the default.
type Limits struct {
	Wall      time.Duration // default 60 s
	CPU       time.Duration // for each process; default 4 times Wall
	Memory    int64         // bytes of the whole run, files in memory apart; default 4 GiB
	Disk      int64         // bytes written to the tree, caches and temporary files; default 2 GiB
	Files     int           // files and folders made there; default 100000
	Processes int           // at one time; default 512
	OpenFiles int           // for each process; default 4096
	Output    int           // bytes kept of each of stdout and stderr; default 4 MiB
}

// WithDefaults returns the limits with the default in place of zero.
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

// End says how a run came to its end.
type End string

// The ends of a run.
const (
	EndExit      End = "exit"      // the command ended by itself
	EndTimeout   End = "timeout"   // Limits.Wall
	EndMemory    End = "memory"    // Limits.Memory
	EndProcesses End = "processes" // Limits.Processes
	EndOutput    End = "output"    // far more output than Limits.Output
	EndDisk      End = "disk"      // Limits.Disk or Limits.Files; where the kernel holds them, the command meets a full disk instead
	EndLost      End = "lost"      // the jail's first process was killed from outside
	EndRefused   End = "refused"   // a layer of Spec.Require could not be had: nothing was started
)

// Result is what a run left behind.
type Result struct {
	End End
	// ExitCode is the command's, or 128 plus the signal that ended it; -1 when
	// the run was lost.
	ExitCode int
	// Stdout and Stderr are cut at Limits.Output; Truncated says that one was.
	Stdout, Stderr []byte
	Truncated      bool
	// Reports has the files of Spec.Reports that exist, up to 16 MiB each; of those
	// that patterns find, 10,000 at most.
	Reports map[string][]byte
	// Touched are the files of Spec.Guarded that the command wrote, replaced or removed.
	Touched []string
	// Lacks are the names of Spec.Require that could not be reached.
	Lacks []string
	// LeftOver is the number of processes still alive when the command ended.
	LeftOver int
	// Layers held; Missing could not be had, with the reason.
	Layers  []string
	Missing map[string]string
	// Duration is the whole run; Command is from the start of the command to its end.
	Duration, Command time.Duration
	// CPU is the time of processors that the run took, walls included; 0 when unknown.
	CPU time.Duration
}

// The layers, see the package comment.
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

// aims are the names that a policy may require besides the layers: each is
// reached when one of its layers holds.
var aims = map[string][]string{
	"filesystem": {LayerMount, LayerLandlock},
	"processes":  {LayerPID, LayerCgroup},
	"memory":     {LayerCgroup, layerWatchdog},
}

// Names returns every name that can be required: the layers and the aims
// filesystem, processes and memory.
func Names() []string {
	names := slices.AppendSeq(slices.Clone(layers), maps.Keys(aims))
	slices.Sort(names)
	return names
}

// Lacks returns those of the required names that the layers do not reach.
func Lacks(required, layers []string) []string {
	var lacks []string
	for _, name := range required {
		if !slices.ContainsFunc(append(slices.Clip(aims[name]), name), func(layer string) bool { return slices.Contains(layers, layer) }) {
			lacks = append(lacks, name)
		}
	}
	return lacks
}
