// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// slots is the number of slots of a cluster.
const slots = 16384

// ClusterOptions say what cluster is started.
type ClusterOptions struct {
	// Options are those of all nodes.
	Options
	// Masters is the number of masters. Default: 3.
	Masters int
	// Replicas is the number of replicas of each master. Default: 1. Negative: none.
	Replicas int
	// NodeTimeout is after which time a node that does not answer is taken for dead. The failover ends about a second
	// later. Default: 2 s.
	NodeTimeout time.Duration
}

// Cluster is a cluster that runs.
type Cluster struct {
	// Nodes are the masters, as they were at first, followed by the replicas.
	Nodes []*Server

	host    *Host
	masters int
	buses   []int // the ports on which the nodes speak with each other
}

// StartCluster starts a cluster and returns when all nodes agree about it. The caller stops it.
func StartCluster(o ClusterOptions) (_ *Cluster, err error) {
	if o.Masters == 0 {
		o.Masters = 3
	}
	if o.Replicas == 0 {
		o.Replicas = 1
	}
	if o.NodeTimeout == 0 {
		o.NodeTimeout = 2 * time.Second
	}
	host, err := NewHost()
	if err != nil {
		return nil, err
	}
	c := &Cluster{host: host, masters: o.Masters}
	defer func() {
		if err != nil {
			c.Stop()
		}
	}()
	for range o.Masters * (1 + max(0, o.Replicas)) {
		bus, err := host.Port()
		if err != nil {
			return nil, err
		}
		c.buses = append(c.buses, bus)
		extra := []string{
			"cluster-enabled yes", "cluster-announce-ip " + host.IP, "cluster-config-file nodes.conf",
			"cluster-port " + strconv.Itoa(bus),
			fmt.Sprintf("cluster-node-timeout %d", o.NodeTimeout.Milliseconds()),
			// A replica may always be elected, and stays with its master.
			"cluster-replica-validity-factor 0", "cluster-allow-replica-migration no",
		}
		if o.TLS != nil {
			extra = append(extra, "tls-cluster yes")
		}
		s, err := newServer(o.Options, host, extra...)
		if s != nil {
			c.Nodes = append(c.Nodes, s)
		}
		if err == nil {
			err = s.start()
		}
		if err != nil {
			return nil, err
		}
	}
	return c, c.create()
}

// create makes a cluster of the nodes.
func (c *Cluster) create() error {
	first := c.Nodes[0]
	for i, s := range c.Nodes {
		if _, err := s.Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
		if i < c.masters {
			from, to := slots*i/c.masters, slots*(i+1)/c.masters-1
			if _, err := s.Do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(from), strconv.Itoa(to)); err != nil {
				return err
			}
		}
		if i > 0 {
			if _, err := first.Do("CLUSTER", "MEET", s.Host(), strconv.Itoa(s.Port()),
				strconv.Itoa(c.buses[i])); err != nil {
				return err
			}
		}
	}
	if err := until("all nodes know each other", patience, c.acquainted); err != nil {
		return err
	}
	for i, s := range c.Nodes[c.masters:] {
		master, err := c.Nodes[i%c.masters].Text("CLUSTER", "MYID")
		if err != nil {
			return err
		}
		if _, err := s.Do("CLUSTER", "REPLICATE", master); err != nil {
			return err
		}
	}
	return c.WaitAgreed()
}

// acquainted returns an error unless all nodes know each other.
func (c *Cluster) acquainted() error {
	for _, s := range c.Nodes {
		known, err := s.Text("CLUSTER", "NODES")
		if err != nil {
			return err
		}
		if n := strings.Count(known, "\n"); n != len(c.Nodes) || strings.Contains(known, "handshake") {
			return fmt.Errorf("%s knows %d of %d nodes", s.Addr(), n, len(c.Nodes))
		}
	}
	return nil
}

// WaitAgreed waits until all nodes that run agree about who serves what, all slots are served, and all replicas that
// run are in step with their masters.
func (c *Cluster) WaitAgreed() error {
	return until("the nodes agree", patience, func() error {
		var first string
		for _, s := range c.Nodes {
			if s.PID() == 0 {
				continue
			}
			info, err := s.Text("CLUSTER", "INFO")
			if err != nil {
				return err
			}
			if state, _ := fieldOf(info, "cluster_state"); state != "ok" {
				return fmt.Errorf("%s: the cluster's state is %s", s.Addr(), state)
			}
			view, err := c.view(s)
			if err != nil {
				return err
			}
			if first == "" {
				first = view
			}
			if view != first {
				return fmt.Errorf("%s sees\n%s, another node\n%s", s.Addr(), view, first)
			}
			if link, err := s.Info("master_link_status"); err == nil && link != "up" {
				return fmt.Errorf("%s: master_link_status is %s", s.Addr(), link)
			}
		}
		return nil
	})
}

// view returns what a node knows about roles and slots, as a text.
func (c *Cluster) view(s *Server) (string, error) {
	nodes, err := c.known(s)
	if err != nil {
		return "", err
	}
	lines := make([]string, 0, len(nodes))
	for _, n := range nodes {
		if n.failing {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s %s %v", n.id, n.master, n.slots))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), nil
}

// node is what a node knows of another.
type node struct {
	id, addr string
	master   string // of a replica
	failing  bool
	slots    []string
}

// known returns what a node knows of all nodes.
func (c *Cluster) known(s *Server) (all []node, err error) {
	text, err := s.Text("CLUSTER", "NODES")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 8 {
			return nil, fmt.Errorf("CLUSTER NODES has the line %q", line)
		}
		addr, _, _ := strings.Cut(fields[1], "@")
		n := node{id: fields[0], addr: addr, failing: strings.Contains(fields[2], "fail"), slots: fields[8:]}
		if fields[3] != "-" {
			n.master = fields[3]
		}
		all = append(all, n)
	}
	return all, nil
}

// Failovers returns how many failovers there were. Slots that were moved count as well.
func (c *Cluster) Failovers() (int, error) {
	most := 0
	for _, s := range c.Nodes {
		if s.PID() == 0 {
			continue
		}
		info, err := s.Text("CLUSTER", "INFO")
		if err != nil {
			return 0, err
		}
		epoch, _ := fieldOf(info, "cluster_current_epoch")
		n, err := strconv.Atoi(epoch)
		if err != nil {
			return 0, err
		}
		most = max(most, n)
	}
	return most - len(c.Nodes), nil
}

// Addrs returns the addresses of all nodes.
func (c *Cluster) Addrs() (all []string) {
	for _, s := range c.Nodes {
		all = append(all, s.Addr())
	}
	return all
}

// Masters returns the masters that run and serve slots.
func (c *Cluster) Masters() (all []*Server, err error) {
	err = errors.New("no node runs")
	for _, s := range c.Nodes {
		if s.PID() == 0 {
			continue
		}
		var nodes []node
		if nodes, err = c.known(s); err != nil {
			continue
		}
		for _, n := range nodes {
			if m := c.at(n.addr); m != nil && m.PID() != 0 && n.master == "" && !n.failing && len(n.slots) > 0 {
				all = append(all, m)
			}
		}
		return all, nil
	}
	return nil, err
}

// at returns the node with an address.
func (c *Cluster) at(addr string) *Server {
	i := slices.IndexFunc(c.Nodes, func(s *Server) bool { return s.Addr() == addr })
	if i < 0 {
		return nil
	}
	return c.Nodes[i]
}

// MasterOf returns the master that serves the slot of a key.
func (c *Cluster) MasterOf(key string) (*Server, error) {
	return c.masterOf(Slot(key))
}

func (c *Cluster) masterOf(slot int) (*Server, error) {
	masters, err := c.Masters()
	if err != nil {
		return nil, err
	}
	for _, m := range masters {
		nodes, err := c.known(m)
		if err != nil {
			return nil, err
		}
		for _, n := range nodes {
			if n.addr == m.Addr() && slices.ContainsFunc(n.slots, func(r string) bool { return within(r, slot) }) {
				return m, nil
			}
		}
	}
	return nil, fmt.Errorf("no node that runs serves slot %d", slot)
}

// within reports whether a range as CLUSTER NODES writes it holds a slot.
func within(r string, slot int) bool {
	from, to, found := strings.Cut(r, "-")
	if !found {
		to = from
	}
	low, err := strconv.Atoi(from)
	if err != nil {
		return false // a slot that is moving
	}
	high, err := strconv.Atoi(to)
	return err == nil && low <= slot && slot <= high
}

// ReplicaOf returns a replica of a master that runs.
func (c *Cluster) ReplicaOf(master *Server) (*Server, error) {
	nodes, err := c.known(master)
	if err != nil {
		return nil, err
	}
	id, err := master.Text("CLUSTER", "MYID")
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		if s := c.at(n.addr); n.master == id && s != nil && s.PID() != 0 {
			return s, nil
		}
	}
	return nil, errors.New(master.Addr() + " has no replica")
}

// Stop ends all nodes and removes their files.
func (c *Cluster) Stop() {
	for _, s := range c.Nodes {
		s.Stop()
	}
	c.host.Release()
}

// Slot returns the slot of a key: that of its part in braces, if it has one.
func Slot(key string) int {
	if begin := strings.IndexByte(key, '{'); begin >= 0 {
		if length := strings.IndexByte(key[begin+1:], '}'); length > 0 {
			key = key[begin+1 : begin+1+length]
		}
	}
	crc := uint16(0)
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slots
}

// MoveSlot moves a slot with its keys to another master, in the steps that redis-cli takes. While it moves, pause is
// called between the steps, unless it is nil.
func (c *Cluster) MoveSlot(slot int, to *Server, pause func()) error {
	from, err := c.masterOf(slot)
	if err != nil || from == to {
		return err
	}
	if pause == nil {
		pause = func() {}
	}
	source, err := from.Text("CLUSTER", "MYID")
	if err != nil {
		return err
	}
	target, err := to.Text("CLUSTER", "MYID")
	if err != nil {
		return err
	}
	number := strconv.Itoa(slot)
	if _, err := to.Do("CLUSTER", "SETSLOT", number, "IMPORTING", source); err != nil {
		return err
	}
	if _, err := from.Do("CLUSTER", "SETSLOT", number, "MIGRATING", target); err != nil {
		return err
	}
	pause()
	if err := moveKeys(from, to, number, pause); err != nil {
		return err
	}
	pause()
	// The target first: the slot never belongs to nobody.
	if _, err := to.Do("CLUSTER", "SETSLOT", number, "NODE", target); err != nil {
		return err
	}
	pause()
	masters, err := c.Masters()
	if err != nil {
		return err
	}
	for _, m := range masters {
		if _, err := m.Do("CLUSTER", "SETSLOT", number, "NODE", target); err != nil {
			return err
		}
	}
	return nil
}

// moveKeys moves the keys of a slot, one at a time.
func moveKeys(from, to *Server, slot string, pause func()) error {
	for {
		answer, err := from.Do("CLUSTER", "GETKEYSINSLOT", slot, "1")
		if err != nil {
			return err
		}
		keys, _ := answer.([]any)
		if len(keys) == 0 {
			return nil
		}
		args := []string{"MIGRATE", to.Host(), strconv.Itoa(to.Port()), "", "0", "5000"}
		switch o := to.options; {
		case o.Admin != "":
			args = append(args, "AUTH2", o.Admin, o.AdminPassword)
		case o.Password != "":
			args = append(args, "AUTH", o.Password)
		}
		args = append(args, "KEYS")
		for _, key := range keys {
			name, _ := key.(string)
			args = append(args, name)
		}
		if _, err := from.Do(args...); err != nil {
			return err
		}
		pause()
	}
}
