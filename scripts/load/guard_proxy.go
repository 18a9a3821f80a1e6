// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// proxyCost holds the cost of the guard for requests of one size.
type proxyCost struct {
	Bytes          int     `json:"bytes"`
	Seen           bool    `json:"seen"` // the same posts come again and again, so that the guard may remember them
	PlainRate      float64 `json:"plain_requests_per_second"`
	GuardedRate    float64 `json:"guarded_requests_per_second"`
	PlainCPUMicros float64 `json:"plain_cpu_us_per_request"`
	GuardedCPU     float64 `json:"guarded_cpu_us_per_request"`
	PlainP50MS     float64 `json:"plain_p50_ms"`
	GuardedP50MS   float64 `json:"guarded_p50_ms"`
	PlainP99MS     float64 `json:"plain_p99_ms"`
	GuardedP99MS   float64 `json:"guarded_p99_ms"`
	Ratio          float64 `json:"ratio"`     // of the requests per second, median of the rounds
	RatioCPU       float64 `json:"ratio_cpu"` // the same by CPU time, which other work on the machine disturbs less
	Aim            float64 `json:"aim"`
}

// posts are the sizes in bytes of JSON posts, with the least share of the unguarded rate that the guard aims at.
var posts = []struct {
	Bytes int
	Aim   float64
}{{200, 0.9}, {2_000, 0.85}}

// proxy measures requests per second.
func (g *guardBench) proxy(ctx context.Context) ([]proxyCost, error) {
	s, err := g.server(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	fmt.Printf("\nreverse_proxy of JSON posts, %d connections, medians of %d rounds of %s; a ratio is the median of those of each round\n", g.connections, g.rounds, g.length)
	fmt.Println("bytes posts   guard      req/s   CPU us/req     p50 ms     p99 ms   ratio of req/s (of CPU)")
	var costs []proxyCost
	for _, size := range posts {
		bodies, err := g.acceptedPosts(ctx, s, size.Bytes, newPosts)
		if err != nil {
			return nil, err
		}
		for _, seen := range []bool{false, true} {
			if seen {
				bodies = bodies[:seenPosts]
			}
			cost, err := g.proxyRounds(ctx, s, bodies)
			if err != nil {
				return nil, err
			}
			cost.Bytes, cost.Seen = size.Bytes, seen
			if !seen {
				cost.Aim = size.Aim
			}
			cost.print()
			costs = append(costs, cost)
		}
	}
	return costs, s.process.Stop()
}

// How many different posts are sent in turn. The guard caches the verdicts of recent texts, which must not make new
// ones look cheaper than they are.
const (
	newPosts  = 16_000
	seenPosts = 256
)

// proxyRounds measures one kind of posts without and with the guard.
func (g *guardBench) proxyRounds(ctx context.Context, s *subject, bodies [][]byte) (proxyCost, error) {
	jobs := map[string]job{}
	for _, path := range []string{plainPath, guardedPath} {
		j := job{Address: s.Address, Connections: g.connections, Duration: g.length}
		for _, body := range bodies {
			j.Requests = append(j.Requests, post(s.Address, path+"/comments", s.Key, body))
		}
		jobs[path] = j
	}
	results, err := alternate(g.rounds, []string{plainPath, guardedPath}, func(kind string) (measured, error) {
		j := jobs[kind]
		m, answered, err := s.measure(ctx, j)
		// In the next round each connection continues where it stopped.
		next := int(answered) / j.Connections % len(j.Requests)
		j.Requests = slices.Concat(j.Requests[next:], j.Requests[:next])
		jobs[kind] = j
		return m, err
	})
	if err != nil {
		return proxyCost{}, err
	}
	if g.profiles != "" {
		for kind, j := range jobs {
			name := fmt.Sprintf("guard-%d-%d-%s.pprof", len(bodies[0]), len(bodies), strings.TrimPrefix(kind, "/"))
			if _, err := s.profile(ctx, j, filepath.Join(g.profiles, name)); err != nil {
				return proxyCost{}, err
			}
		}
	}
	p, m := median(results[plainPath]), median(results[guardedPath])
	return proxyCost{
		PlainRate: p.Rate, GuardedRate: m.Rate, PlainCPUMicros: micros(p.CPU), GuardedCPU: micros(m.CPU),
		PlainP50MS: millis(p.P50), GuardedP50MS: millis(m.P50), PlainP99MS: millis(p.P99), GuardedP99MS: millis(m.P99),
		Ratio:    ratio(results[guardedPath], results[plainPath], func(m measured) float64 { return m.Rate }),
		RatioCPU: ratio(results[plainPath], results[guardedPath], func(m measured) float64 { return float64(m.CPU) }),
	}, nil
}

func (c proxyCost) print() {
	kind := "new"
	if c.Seen {
		kind = "seen"
	}
	fmt.Printf("%5d %-5s   without %8.0f   %10.1f   %8.2f   %8.2f\n", c.Bytes, kind, c.PlainRate, c.PlainCPUMicros,
		c.PlainP50MS, c.PlainP99MS)
	fmt.Printf("%5d %-5s   with    %8.0f   %10.1f   %8.2f   %8.2f   %.3f (%.3f)", c.Bytes, kind, c.GuardedRate,
		c.GuardedCPU, c.GuardedP50MS, c.GuardedP99MS, c.Ratio, c.RatioCPU)
	if c.Aim > 0 {
		fmt.Printf(", aim %.2f", c.Aim)
	}
	fmt.Println()
}

// acceptedPosts returns n different bodies that the guard accepts: refusals would not be comparable.
func (g *guardBench) acceptedPosts(ctx context.Context, s *subject, size, n int) ([][]byte, error) {
	const leading = 300 // characters, of which some are left out, so that texts begin anywhere in their source
	texts, err := contents(g.pattern, n+n/4, size+leading)
	if err != nil {
		return nil, err
	}
	conn, err := net.DialTimeout("tcp", s.Address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	reader := bufio.NewReader(conn)
	random := mathrand.New(mathrand.NewPCG(2, uint64(size)))
	seen := map[string]bool{}
	var all [][]byte
	for i, text := range texts {
		begin := random.IntN(leading)
		if space := strings.IndexByte(text[begin:], ' '); space >= 0 {
			text = text[begin+space+1:]
		}
		body, err := comment(text, i, size)
		if err != nil {
			return nil, err
		}
		if seen[text] {
			continue
		}
		seen[text] = true
		if _, err := conn.Write(post(s.Address, guardedPath+"/comments", s.Key, body)); err != nil {
			return nil, err
		}
		status, err := skipAnswer(reader)
		if err != nil {
			return nil, err
		}
		if status == 200 {
			if all = append(all, body); len(all) == n {
				return all, ctx.Err()
			}
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return nil, fmt.Errorf("the guard lets %d of %d posts of everyday texts through, %d are needed\n%s", len(all),
		len(texts), n, s.process.Output())
}

// comment is a JSON post of exactly size bytes, as a comment form sends it.
func comment(text string, n, size int) ([]byte, error) {
	type author struct {
		Name string `json:"name"`
		Mail string `json:"email,omitempty"`
		Site string `json:"site,omitempty"`
	}
	type body struct {
		Thread  string   `json:"thread"`
		Parent  int      `json:"parent"`
		Author  author   `json:"author"`
		Title   string   `json:"title,omitempty"`
		Tags    []string `json:"tags,omitempty"`
		Notify  bool     `json:"notify"`
		Comment string   `json:"comment"`
	}
	name := []string{"Mara K.", "J. Okafor", "lena", "Tom from the mill", "Ana Sousa", "pete1987", "Dr. Yilmaz"}[n%7]
	b := body{Thread: fmt.Sprintf("t-%06d", n), Parent: n, Author: author{Name: name}, Notify: true}
	if size >= 1_000 {
		b.Title, b.Tags = text[:min(len(text), 40)], []string{"travel", "processTree", "spring"}
		b.Author.Mail = fmt.Sprintf("reader%d@example.com", n)
		b.Author.Site = fmt.Sprintf("https://reader%d.example.com/about", n)
		for !utf8.ValidString(b.Title) {
			b.Title = b.Title[:len(b.Title)-1]
		}
	}
	for b.Comment = text; ; {
		made, err := json.Marshal(b)
		switch {
		case err != nil:
			return nil, err
		case len(made) == size:
			return made, nil
		case len(made) < size: // a character of several bytes went
			b.Comment += strings.Repeat(".", size-len(made))
		case b.Comment == "":
			return nil, fmt.Errorf("a post cannot be as short as %d bytes", size)
		default:
			// A byte is at most six in JSON.
			for range max(1, (len(made)-size)/6) {
				_, last := utf8.DecodeLastRuneInString(b.Comment)
				b.Comment = b.Comment[:len(b.Comment)-last]
			}
		}
	}
}

// uploadCost is what the guard costs a multipart upload.
type uploadCost struct {
	Megabytes     int     `json:"megabytes"`
	PlainMBPerS   float64 `json:"plain_megabytes_per_second"`
	GuardedMBPerS float64 `json:"guarded_megabytes_per_second"`
	Ratio         float64 `json:"ratio"`
	RatioCPU      float64 `json:"ratio_cpu"`
	GrowthPlain   int64   `json:"plain_memory_growth_bytes"` // the most resident memory during all uploads, less that before the first
	GrowthGuarded int64   `json:"guarded_memory_growth_bytes"`
	PeakGuarded   int64   `json:"guarded_memory_peak_bytes"`
}

// uploadAim is how many bytes of memory more than the plain proxy an upload may take.
const uploadAim = 16 << 20

// uploaded is one upload.
type uploaded struct {
	Rate float64 // megabytes per second
	CPU  time.Duration
}

// upload measures a form with a text field before a file and one after it. Each kind has a server of its own, so that
// the memory of one does not hide that of the other.
func (g *guardBench) upload(ctx context.Context) (*uploadCost, error) {
	servers, before := map[string]*subject{}, map[string]int64{}
	kinds := []string{plainPath, guardedPath}
	for _, kind := range kinds {
		s, err := g.server(ctx)
		if err != nil {
			return nil, err
		}
		defer s.close()
		conn, err := postOnce(s.Address, post(s.Address, kind+"/comments", s.Key, []byte(`{"comment":"A fine day."}`)))
		if err != nil {
			return nil, err
		}
		conn.Close()
		servers[kind], before[kind] = s, residentMemory(s.process.PID())
		if err := forgetPeak(s.process.PID()); err != nil {
			return nil, err
		}
	}
	results, err := alternate(g.rounds, kinds, func(kind string) (uploaded, error) {
		if err := ctx.Err(); err != nil {
			return uploaded{}, err
		}
		return g.uploadOnce(servers[kind], kind)
	})
	if err != nil {
		return nil, err
	}
	rate := func(u uploaded) float64 { return u.Rate }
	plain, guarded := results[plainPath], results[guardedPath]
	peak := peakMemory(servers[guardedPath].process.PID())
	cost := &uploadCost{
		Megabytes: g.uploadMB, PlainMBPerS: middle(plain, rate), GuardedMBPerS: middle(guarded, rate),
		Ratio: ratio(guarded, plain, rate), RatioCPU: ratio(plain, guarded,
			func(u uploaded) float64 { return float64(u.CPU) }),
		GrowthPlain:   max(0, peakMemory(servers[plainPath].process.PID())-before[plainPath]),
		GrowthGuarded: max(0, peak-before[guardedPath]), PeakGuarded: peak,
	}
	fmt.Printf("\nupload of %d MB in a form with text fields before and behind it, medians of %d: %.0f MB/s without, %.0f with, ratio %.2f (of CPU %.2f)\n",
		g.uploadMB, g.rounds, cost.PlainMBPerS, cost.GuardedMBPerS, cost.Ratio, cost.RatioCPU)
	fmt.Printf("resident memory grows by at most %.1f MiB without, %.1f MiB with (peak %d MiB)\n",
		mebi(cost.GrowthPlain), mebi(cost.GrowthGuarded), cost.PeakGuarded>>20)
	for _, s := range servers {
		if err := s.process.Stop(); err != nil {
			return nil, err
		}
	}
	return cost, nil
}

// uploadOnce uploads a file and waits for the answer.
func (g *guardBench) uploadOnce(s *subject, path string) (uploaded, error) {
	const boundary = "----WebKitFormBoundary7MA4YWxkTrZu0gW"
	head := "--" + boundary + "\r\nContent-Disposition: form-data; name=\"title\"\r\n\r\nOur holiday on the coast\r\n--" + boundary +
		"\r\nContent-Disposition: form-data; name=\"film\"; filename=\"coast.mp4\"\r\nContent-Type: video/mp4\r\n\r\n"
	tail := "\r\n--" + boundary + "\r\nContent-Disposition: form-data; name=\"comment\"\r\n\r\nThe weather was fine and we had a good time.\r\n--" + boundary + "--\r\n"
	block := make([]byte, 1_000_000)
	_, _ = rand.Read(block) // never fails; what a film looks like
	length := len(head) + g.uploadMB*len(block) + len(tail)

	pid := s.process.PID()
	spent, begin := cpuTime(pid), time.Now()
	conn, err := net.DialTimeout("tcp", s.Address, 5*time.Second)
	if err != nil {
		return uploaded{}, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
	_, err = fmt.Fprintf(conn,
		"POST %s/films HTTP/1.1\r\nHost: %s\r\nContent-Type: multipart/form-data; boundary=%s\r\nContent-Length: %d\r\n\r\n%s",
		path, s.Address, boundary, length, head)
	for range g.uploadMB {
		if err == nil {
			_, err = conn.Write(block)
		}
	}
	if err == nil {
		_, err = io.WriteString(conn, tail)
	}
	if err != nil {
		return uploaded{}, err
	}
	status, err := skipAnswer(bufio.NewReader(conn))
	if err != nil || status != 200 {
		return uploaded{}, errors.Join(err, fmt.Errorf("answered with %d\n%s", status, s.process.Output()))
	}
	return uploaded{Rate: float64(length) / 1e6 / time.Since(begin).Seconds(), CPU: cpuTime(pid) - spent}, nil
}

func mebi(bytes int64) float64 { return float64(bytes) / (1 << 20) }
