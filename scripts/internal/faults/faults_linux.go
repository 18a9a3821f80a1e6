// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package faults

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// launchArgument is the first argument of a process that is the launcher of a supervised program.
const launchArgument = "launch-supervised"

// inherited is the descriptor over which the launcher hands over the listener.
const inherited = 3

// handover is how long a launcher may take to begin.
const handover = 30 * time.Second

// offsets into struct seccomp_data, the lower halves of numbers.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetFifth  = 16 + 4*8
)

// Supervisor intercepts the calls of a program.
type Supervisor struct {
	calls  []string
	decide Decide
	ours   *os.File
	theirs *os.File

	running sync.WaitGroup
}

// New returns a supervisor of the named calls. Calls of "mmap" are seen only when they map a file.
func New(calls []string, decide Decide) (*Supervisor, error) {
	for _, name := range calls {
		if _, ok := numbers[name]; !ok {
			return nil, fmt.Errorf("faults: the call %q is not known", name)
		}
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("faults: %w", err)
	}
	return &Supervisor{
		calls: slices.Clone(calls), decide: decide,
		ours: os.NewFile(uintptr(pair[0]), "listener"), theirs: os.NewFile(uintptr(pair[1]), "listener"),
	}, nil
}

// Wrap returns the command that runs a command under supervision. It must be started with [Supervisor.File] as its
// descriptor 3.
func (s *Supervisor) Wrap(command []string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	program, err := exec.LookPath(command[0])
	if err != nil {
		return nil, err
	}
	return slices.Concat([]string{self, launchArgument, strings.Join(s.calls, ","), program}, command[1:]), nil
}

// File returns the file that the launcher inherits.
func (s *Supervisor) File() *os.File { return s.theirs }

// Run receives the listener from the launcher, which must have been started, and decides about calls until the last
// supervised process has ended. It returns an error if the launcher could not be supervised.
func (s *Supervisor) Run() error {
	listener, err := receive(s.ours)
	_ = s.theirs.Close() // not before: the launcher may not have been started yet
	if err != nil {
		return err
	}
	defer unix.Close(listener)
	defer s.running.Wait()
	poll := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(poll, -1); err != nil {
			if errors.Is(err, unix.EINTR) {
				continue
			}
			return fmt.Errorf("faults: %w", err)
		}
		if poll[0].Revents&unix.POLLIN == 0 {
			return nil // nobody is left
		}
		var n notification
		if err := control(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)); err != nil {
			continue // the caller was interrupted or has been killed meanwhile
		}
		s.running.Go(func() { s.answer(listener, &n) })
	}
}

// Try runs a program that does nothing under supervision. It returns an error if this machine does not permit that.
func (s *Supervisor) Try() error {
	command, err := s.Wrap([]string{"true"})
	if err != nil {
		return err
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.ExtraFiles = []*os.File{s.File()}
	if err := cmd.Start(); err != nil {
		return err
	}
	return errors.Join(s.Run(), cmd.Wait())
}

// answer decides about a call.
func (s *Supervisor) answer(listener int, n *notification) {
	call := Call{PID: int(n.pid), Args: n.args}
	for _, name := range s.calls {
		if numbers[name] == int(n.number) {
			call.Name = name
		}
	}
	r := response{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	if errno := s.decide(call); errno != 0 {
		r = response{id: n.id, errno: -int32(errno)}
	}
	_ = control(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r)) // the caller may be gone
}

// notification is struct seccomp_notif, response is struct seccomp_notif_resp.
type notification struct {
	id     uint64
	pid    uint32
	flags  uint32
	number int32
	arch   uint32
	ip     uint64
	args   [6]uint64
}

type response struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

func control(fd int, request uint, argument unsafe.Pointer) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(argument))
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return errno
		}
	}
}

// receive reads the listener that the launcher sends.
func receive(from *os.File) (int, error) {
	conn, err := net.FileConn(from)
	_ = from.Close()
	if err != nil {
		return 0, fmt.Errorf("faults: %w", err)
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(handover))
	text, rights := make([]byte, 256), make([]byte, unix.CmsgSpace(4))
	n, oob, _, _, err := conn.(*net.UnixConn).ReadMsgUnix(text, rights)
	if err != nil {
		return 0, fmt.Errorf("faults: the launcher ended: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:oob])
	if err != nil || len(messages) == 0 {
		return 0, fmt.Errorf("faults: the launcher failed: %s", text[:n])
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return 0, errors.New("faults: the launcher sent no listener")
	}
	unix.CloseOnExec(fds[0])
	return fds[0], nil
}

// Main becomes the supervised program if this process was started as its launcher. Otherwise it returns.
func Main() {
	if len(os.Args) < 4 || os.Args[1] != launchArgument {
		return
	}
	err := launch(strings.Split(os.Args[2], ","), os.Args[3:])
	_, _ = unix.Write(inherited, []byte(err.Error()))
	fmt.Fprintln(os.Stderr, "faults:", err)
	os.Exit(125)
}

func launch(calls, command []string) error {
	// A filter belongs to a thread; the program inherits that of the thread that becomes it.
	runtime.LockOSThread()
	unix.CloseOnExec(inherited)
	program := filter(calls)
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	listener, err := install(program)
	if err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	if err := unix.Sendmsg(inherited, []byte{'\n'}, unix.UnixRights(listener), nil, 0); err != nil {
		return fmt.Errorf("handing over the listener: %w", err)
	}
	return fmt.Errorf("exec: %w", syscall.Exec(command[0], command, os.Environ()))
}

// install installs the filter on this thread and returns its listener.
func install(program []unix.SockFilter) (int, error) {
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	// A signal to a thread that waits for an answer must not make it ask again: Go sends them all the time. Kernels
	// before 5.19 do not know this flag.
	for _, flags := range []uintptr{unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER} {
		fd, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags,
			uintptr(unsafe.Pointer(&prog)))
		if errno == 0 {
			return int(fd), nil
		}
		if errno != unix.EINVAL {
			return 0, errno
		}
	}
	return 0, unix.EINVAL
}

// filter is the seccomp program that reports the calls and allows all others.
func filter(calls []string) []unix.SockFilter {
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		end   = unix.BPF_RET | unix.BPF_K
	)
	p := []unix.SockFilter{
		{Code: load, K: offsetArch},
		{Code: equal, K: arch, Jt: 1},
		{Code: end, K: unix.SECCOMP_RET_ALLOW},
	}
	for _, name := range calls {
		p = append(p, unix.SockFilter{Code: load, K: offsetNumber})
		if name == "mmap" {
			p = append(p,
				unix.SockFilter{Code: equal, K: uint32(numbers[name]), Jf: 3},
				unix.SockFilter{Code: load, K: offsetFifth},
				unix.SockFilter{Code: equal, K: 0xffffffff, Jt: 1}, // no file
				unix.SockFilter{Code: end, K: unix.SECCOMP_RET_USER_NOTIF})
			continue
		}
		p = append(p, unix.SockFilter{Code: equal, K: uint32(numbers[name]), Jf: 1},
			unix.SockFilter{Code: end, K: unix.SECCOMP_RET_USER_NOTIF})
	}
	return append(p, unix.SockFilter{Code: end, K: unix.SECCOMP_RET_ALLOW})
}

// Names are the calls that can be supervised.
func Names() []string {
	names := make([]string, 0, len(numbers))
	for name := range numbers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

var numbers = map[string]int{
	"fsync": unix.SYS_FSYNC, "fdatasync": unix.SYS_FDATASYNC, "msync": unix.SYS_MSYNC,
	"execve": unix.SYS_EXECVE, "openat": unix.SYS_OPENAT, "write": unix.SYS_WRITE, "pwrite64": unix.SYS_PWRITE64,
	"read": unix.SYS_READ, "pread64": unix.SYS_PREAD64,
	"ftruncate": unix.SYS_FTRUNCATE, "fallocate": unix.SYS_FALLOCATE, "mmap": unix.SYS_MMAP, "mremap": unix.SYS_MREMAP,
	"renameat": unix.SYS_RENAMEAT, "renameat2": unix.SYS_RENAMEAT2, "unlinkat": unix.SYS_UNLINKAT, "mkdirat": unix.SYS_MKDIRAT,
	"statfs": unix.SYS_STATFS,
}

// Path returns the name of the file that the call is about. It is empty where that cannot be known, as for msync and
// mremap, which are about memory.
func (c Call) Path() string {
	switch c.Name {
	case "openat", "unlinkat", "mkdirat":
		return c.at(c.Args[0], c.Args[1])
	case "renameat", "renameat2":
		return c.at(c.Args[2], c.Args[3])
	case "statfs":
		return c.text(c.Args[0])
	case "msync", "mremap":
		return ""
	case "mmap":
		return c.descriptor(c.Args[4])
	}
	return c.descriptor(c.Args[0])
}

func (c Call) descriptor(fd uint64) string {
	path, err := os.Readlink("/proc/" + strconv.Itoa(c.PID) + "/fd/" + strconv.Itoa(int(int32(fd))))
	if err != nil {
		return ""
	}
	return path
}

func (c Call) at(folder, name uint64) string {
	path := c.text(name)
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	base := c.descriptor(folder)
	if int32(folder) == unix.AT_FDCWD {
		base, _ = os.Readlink("/proc/" + strconv.Itoa(c.PID) + "/cwd")
	}
	return filepath.Join(base, path)
}

// text reads a string of the process.
func (c Call) text(address uint64) string {
	buffer := make([]byte, 4096)
	// Not across the end of a page: the next one may not be there.
	n := min(uint64(len(buffer)), 4096-address%4096)
	for total := uint64(0); total < uint64(len(buffer)); {
		local := unix.Iovec{Base: &buffer[total]}
		local.SetLen(int(n))
		got, err := unix.ProcessVMReadv(c.PID, []unix.Iovec{local},
			[]unix.RemoteIovec{{Base: uintptr(address + total), Len: int(n)}}, 0)
		if err != nil {
			return ""
		}
		if text, _, found := strings.Cut(string(buffer[:int(total)+got]), "\x00"); found {
			return text
		}
		total += uint64(got)
		n = min(4096, uint64(len(buffer))-total)
	}
	return ""
}
