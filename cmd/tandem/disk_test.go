package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// mount gives a small file system of its own.
func mount(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tandem-test", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestTrainOnAFullDisk(t *testing.T) {
	t.Parallel()
	disk := mount(t, "size=12m") // one state is 9 MiB
	_, args := small(t)
	dir := filepath.Join(disk, "run")
	args = append(args, "--run", dir)
	refused(t, 2, args, "checkpoint after step 6", "state.safetensors", "no space left on device")
	if got := names(dir, "ckpt"); len(got) != 1 || got[0] != "000003" {
		t.Errorf("checkpoints %v, want the whole one of step 3", got)
	}
	refused(t, 2, append(args, "--resume"), "checkpoint after step 6", "no space left on device")
	filler := filepath.Join(disk, "filler")
	if err := os.WriteFile(filler, make([]byte, 16<<20), 0o644); err == nil {
		t.Fatal("the disk is not full")
	}
	refused(t, 2, append(args, "--resume"), dir, "no space left on device")
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tandem-test", disk, "tmpfs", unix.MS_REMOUNT, "size=100m"); err != nil {
		t.Fatal(err)
	}
	if r := tandem(t, append(args, "--resume")...); !strings.Contains(r.stdout, "resuming after step 3 of 20") {
		t.Errorf("resumed: %v", r)
	}
	sameRun(t, dir, need(t, shared.trained))
}

func TestReadOnlyPlacesAreRefused(t *testing.T) {
	t.Parallel()
	disk := mount(t, "size=100m")
	run := filepath.Join(disk, "run")
	if err := os.CopyFS(run, os.DirFS(need(t, shared.trained))); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tandem-test", disk, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	_, args := small(t)
	const readOnly = "read-only file system"
	refused(t, 2, append(args, "--run", filepath.Join(disk, "other")), "make a run directory", disk, readOnly)
	refused(t, 2, []string{"train", "--resume", "--run", run}, "run directory "+run, readOnly)
	refused(t, 2, []string{"init-model", "tiny", filepath.Join(disk, "model")}, "save "+disk, readOnly)
}
