// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// MasterName is the name of the master for the sentinels.
const MasterName = "main"

// SentinelOptions say what master, replicas and sentinels are started.
type SentinelOptions struct {
	// Options are those of the master and its replicas. Users are not for sentinels, the password is not either.
	Options
	// Replicas is the number of replicas. Default: 2. Negative: none.
	Replicas int
	// DownAfter is after which time a master that does not answer is taken for dead. The failover ends about two
	// seconds later. Sentinels ask once a second: with a second or less they may depose a master that is well.
	// Default: 1.5 s.
	DownAfter time.Duration
	// SentinelPassword is what the sentinels ask of their clients. Default: none.
	SentinelPassword string
}

// Sentinel is a master with replicas, and three sentinels that watch it.
type Sentinel struct {
	// Servers are the first master and its replicas.
	Servers []*Server
	// Sentinels are the sentinels.
	Sentinels []*Server

	host *Host
}

// StartSentinel starts a master with replicas and three sentinels, and returns when all know each other. The caller
// stops them.
func StartSentinel(o SentinelOptions) (_ *Sentinel, err error) {
	if o.Replicas == 0 {
		o.Replicas = 2
	}
	if o.DownAfter == 0 {
		o.DownAfter = 1500 * time.Millisecond
	}
	host, err := NewHost()
	if err != nil {
		return nil, err
	}
	s := &Sentinel{host: host}
	defer func() {
		if err != nil {
			s.Stop()
		}
	}()
	for i := range 1 + max(0, o.Replicas) {
		var extra []string
		if i > 0 {
			extra = []string{fmt.Sprintf("replicaof %s %d", host.IP, s.Servers[0].port)}
		}
		server, err := newServer(o.Options, host, extra...)
		if server != nil {
			s.Servers = append(s.Servers, server)
		}
		if err == nil {
			err = server.start()
		}
		if err != nil {
			return nil, err
		}
	}
	for _, replica := range s.Servers[1:] {
		if err := replica.replicates(); err != nil {
			return nil, err
		}
	}
	for range 3 {
		watcher := Options{Program: o.Program, Password: o.SentinelPassword, TLS: o.TLS,
			ClientCertificates: o.ClientCertificates}
		extra := []string{
			fmt.Sprintf("sentinel monitor %s %s %d 2", MasterName, host.IP, s.Servers[0].port),
			fmt.Sprintf("sentinel down-after-milliseconds %s %d", MasterName, o.DownAfter.Milliseconds()),
			fmt.Sprintf("sentinel failover-timeout %s %d", MasterName, 3*o.DownAfter.Milliseconds()),
			fmt.Sprintf("sentinel parallel-syncs %s 2", MasterName),
			"sentinel announce-ip " + host.IP,
		}
		if o.Password != "" {
			extra = append(extra, fmt.Sprintf("sentinel auth-pass %s %s", MasterName, o.Password))
		}
		if o.SentinelPassword != "" {
			extra = append(extra, "sentinel sentinel-pass "+o.SentinelPassword)
		}
		server, err := newServer(watcher, host, extra...)
		if server != nil {
			server.mode = []string{"--sentinel"}
			s.Sentinels = append(s.Sentinels, server)
		}
		if err == nil {
			err = server.start()
		}
		if err != nil {
			return nil, err
		}
	}
	return s, s.WaitAgreed()
}

// WaitAgreed waits until all sentinels that run know the same master, which runs, all its replicas and each other.
func (s *Sentinel) WaitAgreed() error {
	running := 0
	for _, server := range s.Sentinels {
		if server.PID() != 0 {
			running++
		}
	}
	return until("the sentinels agree", patience, func() error {
		master, err := s.Master()
		if err != nil {
			return err
		}
		for _, sentinel := range s.Sentinels {
			if sentinel.PID() == 0 {
				continue
			}
			fields, err := watched(sentinel)
			if err != nil {
				return err
			}
			want := map[string]string{
				"ip": master.Host(), "port": strconv.Itoa(master.Port()), "flags": "master",
				"num-other-sentinels": strconv.Itoa(len(s.Sentinels) - 1),
				"num-slaves":          strconv.Itoa(len(s.Servers) - 1),
			}
			for name, value := range want {
				if fields[name] != value {
					return fmt.Errorf("%s: %s is %q, not %q", sentinel.Addr(), name, fields[name], value)
				}
			}
		}
		if role, err := master.Info("role"); err != nil || role != "master" {
			return fmt.Errorf("%s is %s: %w", master.Addr(), role, errors.Join(err))
		}
		return nil
	})
}

// watched returns what a sentinel knows of the master.
func watched(sentinel *Server) (map[string]string, error) {
	answer, err := sentinel.Do("SENTINEL", "MASTER", MasterName)
	if err != nil {
		return nil, err
	}
	list, _ := answer.([]any)
	fields := map[string]string{}
	for i := 0; i+1 < len(list); i += 2 {
		name, _ := list[i].(string)
		fields[name], _ = list[i+1].(string)
	}
	return fields, nil
}

// Master returns the server that the sentinels name as the master.
func (s *Sentinel) Master() (*Server, error) {
	err := errors.New("no sentinel runs")
	for _, sentinel := range s.Sentinels {
		if sentinel.PID() == 0 {
			continue
		}
		var fields map[string]string
		if fields, err = watched(sentinel); err != nil {
			continue
		}
		addr := net.JoinHostPort(fields["ip"], fields["port"])
		for _, server := range s.Servers {
			if server.Addr() == addr {
				return server, nil
			}
		}
		return nil, errors.New("the sentinels name the master " + addr)
	}
	return nil, err
}

// Failovers returns how many failovers there were.
func (s *Sentinel) Failovers() (int, error) {
	most := 0
	for _, sentinel := range s.Sentinels {
		if sentinel.PID() == 0 {
			continue
		}
		fields, err := watched(sentinel)
		if err != nil {
			return 0, err
		}
		n, err := strconv.Atoi(fields["config-epoch"])
		if err != nil {
			return 0, err
		}
		most = max(most, n)
	}
	return most, nil
}

// Addrs returns the addresses of the sentinels.
func (s *Sentinel) Addrs() (all []string) {
	for _, sentinel := range s.Sentinels {
		all = append(all, sentinel.Addr())
	}
	return all
}

// Stop ends all servers and removes their files.
func (s *Sentinel) Stop() {
	// Sentinels first: they have nobody elect another master.
	for _, server := range append(s.Sentinels, s.Servers...) {
		server.Stop()
	}
	s.host.Release()
}
