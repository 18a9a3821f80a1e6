// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bytes"
	"errors"
	"net"
	"sync"
	"time"
)

// Proxy stands between clients and a server and passes on what they say, until it is told to do harm. Faults can be
// switched at any time; they hold for connections that are open as well as for new ones.
type Proxy struct {
	host *Host
	addr string

	mu       sync.Mutex
	target   string
	changed  chan struct{} // closed when a fault is switched
	listener net.Listener
	conns    map[*link]bool
	stopped  bool
	fault    fault
	accepted int
}

// fault is what the proxy does to connections.
type fault struct {
	hang      bool
	delay     time.Duration
	bandwidth int
	lose      int    // answers to lose
	match     []byte // what a request must hold whose answer is lost
	old, new  []byte // what is replaced in answers
}

// link is a connection through the proxy.
type link struct {
	client, server net.Conn
}

func (l *link) close() {
	_ = l.client.Close()
	if l.server != nil {
		_ = l.server.Close()
	}
}

// NewProxy starts a proxy for an address. The caller stops it.
func NewProxy(target string) (*Proxy, error) {
	host, err := NewHost()
	if err != nil {
		return nil, err
	}
	addr, err := host.Addr()
	if err != nil {
		host.Release()
		return nil, err
	}
	p := &Proxy{target: target, host: host, addr: addr, conns: map[*link]bool{}, changed: make(chan struct{})}
	if err := p.listen(); err != nil {
		host.Release()
		return nil, err
	}
	return p, nil
}

// Addr returns the address on which the proxy listens.
func (p *Proxy) Addr() string { return p.addr }

// Accepted returns how many connections were accepted so far.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// SetTarget has new connections lead to another address, as a name does whose address has changed.
func (p *Proxy) SetTarget(target string) { p.change(func() { p.target = target }) }

// listen accepts connections, unless it does already.
func (p *Proxy) listen() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil || p.stopped {
		return nil
	}
	listener, err := net.Listen("tcp", p.addr)
	if err != nil {
		return err
	}
	p.listener = listener
	go p.accept(listener)
	return nil
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			go p.serve(client)
		}
	}
}

// serve passes on what is said on a connection, until one side closes it.
func (p *Proxy) serve(client net.Conn) {
	l := &link{client: client}
	p.mu.Lock()
	if p.stopped || p.listener == nil {
		p.mu.Unlock()
		l.close()
		return
	}
	p.conns[l] = true
	p.accepted++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.conns, l)
		p.mu.Unlock()
		l.close()
	}()
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	server, err := net.DialTimeout("tcp", target, 5*time.Second)
	if err != nil {
		return
	}
	p.mu.Lock()
	l.server = server
	gone := !p.conns[l]
	p.mu.Unlock()
	if gone {
		return
	}
	var losing sync.Mutex
	lose := false // the next answer
	ended := make(chan struct{}, 2)
	go func() {
		p.pass(l, server, client, func(text []byte) ([]byte, bool) {
			losing.Lock()
			defer losing.Unlock()
			lose = lose || p.loses(text)
			return text, true
		})
		ended <- struct{}{}
	}()
	go func() {
		p.pass(l, client, server, func(text []byte) ([]byte, bool) {
			losing.Lock()
			defer losing.Unlock()
			if lose {
				// What was sent is at the server, which is about to read it: the connection to it ends in order.
				_ = client.Close()
				time.Sleep(20 * time.Millisecond)
			}
			return p.rewritten(text), !lose
		})
		ended <- struct{}{}
	}()
	<-ended
}

// loses reports whether the answer to a request is to be lost.
func (p *Proxy) loses(request []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault.lose == 0 || !bytes.Contains(request, p.fault.match) {
		return false
	}
	p.fault.lose--
	return true
}

func (p *Proxy) rewritten(chunk []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.fault.old) == 0 {
		return chunk
	}
	return bytes.ReplaceAll(chunk, p.fault.old, p.fault.new)
}

// chunk is something that was said, and when.
type chunk struct {
	text []byte
	at   time.Time
}

// pass copies what one side says to the other, as the fault lets it.
func (p *Proxy) pass(l *link, to, from net.Conn, change func([]byte) ([]byte, bool)) {
	said := make(chan chunk, 256)
	go func() {
		defer close(said)
		for {
			buffer := make([]byte, 16<<10)
			n, err := from.Read(buffer)
			if n > 0 {
				said <- chunk{buffer[:n], time.Now()}
			}
			if err != nil {
				return
			}
		}
	}()
	defer func() {
		// Whoever reads must end, too.
		l.close()
		for range said {
			continue
		}
	}()
	free := time.Now() // when the bandwidth is no longer taken
	for c := range said {
		if !p.hold(l, c, &free) {
			return
		}
		text, ok := change(c.text)
		if !ok {
			return
		}
		if _, err := to.Write(text); err != nil {
			return
		}
	}
	// A connection that hangs does not learn of the other side's end either.
	_ = p.hold(l, chunk{at: time.Now()}, &free)
}

// hold waits as long as the fault wants something to be held back, and reports whether the connection goes on.
func (p *Proxy) hold(l *link, c chunk, free *time.Time) bool {
	for {
		p.mu.Lock()
		f, changed, goesOn := p.fault, p.changed, p.conns[l]
		p.mu.Unlock()
		if !goesOn {
			return false
		}
		if f.hang {
			<-changed
			continue
		}
		due := c.at
		if f.bandwidth > 0 {
			if free.After(due) {
				due = *free
			}
			due = due.Add(time.Duration(len(c.text)) * time.Second / time.Duration(f.bandwidth))
		}
		wait := time.Until(due.Add(f.delay))
		if wait <= 0 {
			*free = due
			return true
		}
		timer := time.NewTimer(wait)
		select {
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// change switches the fault.
func (p *Proxy) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

// Heal ends all faults. Connections that hung go on where they were.
func (p *Proxy) Heal() error {
	p.change(func() { p.fault = fault{} })
	return p.listen()
}

// Hang lets nothing through, as a network that drops all packets: connections stay open, new ones are accepted, and
// nothing is answered.
func (p *Proxy) Hang() { p.change(func() { p.fault.hang = true }) }

// Delay delays what is said, in each direction.
func (p *Proxy) Delay(d time.Duration) { p.change(func() { p.fault.delay = d }) }

// Bandwidth bounds the bytes a second of each connection and direction. 0: no bound.
func (p *Proxy) Bandwidth(bytes int) { p.change(func() { p.fault.bandwidth = bytes }) }

// LoseAnswers has the next n requests that hold match reach the server, and breaks the connection in place of the
// answer.
func (p *Proxy) LoseAnswers(n int, match string) {
	p.change(func() { p.fault.lose, p.fault.match = n, []byte(match) })
}

// Rewrite replaces a text in answers by one of the same length, such as the server's version.
func (p *Proxy) Rewrite(old, replacement string) error {
	if len(old) != len(replacement) {
		return errors.New("a text can be replaced by one of the same length only")
	}
	p.change(func() { p.fault.old, p.fault.new = []byte(old), []byte(replacement) })
	return nil
}

// Cut breaks all connections. New ones are accepted.
func (p *Proxy) Cut() {
	p.change(func() {
		for l := range p.conns {
			l.close()
			delete(p.conns, l)
		}
	})
}

// Refuse breaks all connections and refuses new ones, until [Proxy.Heal].
func (p *Proxy) Refuse() {
	p.mu.Lock()
	listener := p.listener
	p.listener = nil
	p.mu.Unlock()
	if listener != nil {
		_ = listener.Close()
	}
	p.Cut()
}

// Stop breaks all connections and ends the proxy.
func (p *Proxy) Stop() {
	p.mu.Lock()
	p.stopped = true
	p.mu.Unlock()
	p.Refuse()
	p.host.Release()
}
