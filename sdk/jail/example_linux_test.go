package jail_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/stepfall/stepfall/sdk/jail"
)

// The program's main calls jail.Main first, since it is also the jail's first process.
func ExampleJail_Run() {
	ctx := context.Background()
	tree, err := os.MkdirTemp("", "tree")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(tree)
	j, err := jail.Open(ctx, jail.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := j.Run(ctx, &jail.Spec{
		Dir: tree, Changes: []jail.Change{{Path: "greeting", Data: []byte("hello\n")}},
		Argv: []string{"sh", "-c", "cat greeting; cat /etc/shadow 2>/dev/null || echo refused; exit 3"},
		Env:  jail.ToolEnv(), ReadOnly: jail.SystemPaths(), Require: []string{"rlimits"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s%s %d\n", result.Stdout, result.End, result.ExitCode)
	left, err := os.ReadDir(tree)
	fmt.Println(len(left), "files in the tree", err)
	// Output:
	// hello
	// refused
	// exit 3
	// 0 files in the tree <nil>
}

func ExampleJail_Start() {
	ctx := context.Background()
	j, err := jail.Open(ctx, jail.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	command := exec.Command("/bin/sh", "-c", "setsid sleep 600 & echo started")
	command.Stdout = os.Stdout
	confined, err := j.Start(ctx, command, &jail.Confinement{Require: []string{"memory"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer confined.Close()
	fmt.Println(command.Wait()) // the sleep has ended too
	// Output:
	// started
	// <nil>
}
