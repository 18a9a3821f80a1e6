// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package quality tells from what reviewers have decided how good a judge the service is, and how good people are.
//
// Three things are told apart. How often people agree with the service is known of all decided items, but these are
// mostly items that the service was not sure of, so it says nothing about other texts. Precision and recall are
// estimated from the random sample alone, which people decide without knowing the verdict. And how often two people
// agree about the same item bounds what any classifier can reach.
package quality

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/caddy-moderation/caddy-moderation/review"
)

// Share is how many of some items have a property.
type Share struct {
	// Count is how many have it, from 0 to Total.
	Count int `json:"count"`
	// Total is how many items there are.
	Total int `json:"total"`
}

// Value is the share, from 0 to 1; 0 if there are no items.
func (s Share) Value() float64 {
	if s.Total == 0 {
		return 0
	}
	return float64(s.Count) / float64(s.Total)
}

// normal95 is the quantile of the standard normal distribution for an interval of 95 %.
const normal95 = 1.959963984540054

// Interval is the 95 % confidence interval of the share: Wilson's score interval (E. B. Wilson, Probable inference, the
// law of succession, and statistical inference, JASA 22, 1927). Without items it is everything from 0 to 1.
func (s Share) Interval() (low, high float64) {
	if s.Total == 0 {
		return 0, 1
	}
	n, p, z := float64(s.Total), s.Value(), normal95
	middle := p + z*z/(2*n)
	spread := z * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	scale := 1 + z*z/n
	return max((middle-spread)/scale, 0), min((middle+spread)/scale, 1)
}

func (s *Share) add(has bool) {
	s.Total++
	if has {
		s.Count++
	}
}

// Confusion counts the items of which both the judge and people have said something.
type Confusion struct {
	// TruePositives are those of which both say that they are harmful, and so on.
	TruePositives, FalsePositives, FalseNegatives, TrueNegatives int
}

func (c *Confusion) add(judged, is bool) {
	switch {
	case judged && is:
		c.TruePositives++
	case judged:
		c.FalsePositives++
	case is:
		c.FalseNegatives++
	default:
		c.TrueNegatives++
	}
}

// Precision is how many of those that the judge names harmful are.
func (c Confusion) Precision() Share {
	return Share{c.TruePositives, c.TruePositives + c.FalsePositives}
}

// Recall is how many of the harmful ones the judge names.
func (c Confusion) Recall() Share { return Share{c.TruePositives, c.TruePositives + c.FalseNegatives} }

// Agreement is how often the judge says what people say.
func (c Confusion) Agreement() Share { return Share{c.TruePositives + c.TrueNegatives, c.Total()} }

// Flagged is how many the judge names harmful.
func (c Confusion) Flagged() Share { return Share{c.TruePositives + c.FalsePositives, c.Total()} }

// Total is the number of items.
func (c Confusion) Total() int {
	return c.TruePositives + c.FalsePositives + c.FalseNegatives + c.TrueNegatives
}

// Category is what is known of one category.
type Category struct {
	Name string
	// All counts the decided items of which people have said whether they are of the category.
	All Confusion
	// Sample counts those of the random sample.
	Sample Confusion
	// points are the probabilities with what people have said.
	points []point
}

type point struct {
	probability float64
	is, sampled bool
}

// At returns what the counts would be with another threshold: what is at or above it is flagged.
func (c *Category) At(threshold float64) (all, sample Confusion) {
	for _, p := range c.points {
		all.add(p.probability >= threshold, p.is)
		if p.sampled {
			sample.add(p.probability >= threshold, p.is)
		}
	}
	return all, sample
}

// Week is what was decided in one week.
type Week struct {
	// Begin is its Monday, in UTC.
	Begin time.Time
	// Agreement is how often the judge said what people said, over all categories.
	Agreement Share
}

// Pairs compares the decisions of two reviewers about the same items.
type Pairs struct {
	// Both has how many items both have decided, and about how many they agree.
	Both Share
	// Approved and Rejected count the decisions of the first and of the second reviewer.
	Approved, Rejected [2]int
}

// Kappa is how much more often two reviewers agree than by chance, relative to what is possible: 1 is always, 0 is as
// by chance (J. Cohen, A coefficient of agreement for nominal scales, Educational and Psychological Measurement 20,
// 1960). It is not known without items, and if both have decided all of them alike.
func (p Pairs) Kappa() (kappa float64, known bool) {
	n := float64(p.Both.Total)
	if n == 0 {
		return 0, false
	}
	chance := (float64(p.Approved[0])*float64(p.Approved[1]) + float64(p.Rejected[0])*float64(p.Rejected[1])) / (n * n)
	if chance >= 1 {
		return 0, false
	}
	return (p.Both.Value() - chance) / (1 - chance), true
}

// Report is what decided items say about the judge and about reviewers.
type Report struct {
	// Items is how many decided items were read, and Sampled how many of them are of the random sample.
	Items, Sampled int
	// Verdict compares the judge's recommendation with what people decided, on items that it would approve or reject:
	// harmful is what is rejected.
	Verdict Confusion
	// Sample compares them on the random sample, with what the judge would have people review among what it names
	// harmful: nothing of that passes unseen.
	Sample Confusion
	// Categories are in the order in which they were asked for.
	Categories []Category
	// Weeks have the earliest first. A week without decisions is left out.
	Weeks []Week
	// Pairs compares reviewers.
	Pairs Pairs
}

// Counter makes a [Report].
type Counter struct {
	report Report
	names  []string
	weeks  map[time.Time]*Share
}

// NewCounter returns a counter for these categories.
func NewCounter(categories []string) *Counter {
	c := &Counter{names: categories, weeks: map[time.Time]*Share{}}
	for _, name := range categories {
		c.report.Categories = append(c.report.Categories, Category{Name: name})
	}
	return c
}

// weekOf returns the Monday of a point in time, in UTC.
func weekOf(at time.Time) time.Time {
	at = at.UTC()
	day := time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC)
	return day.AddDate(0, 0, -(int(day.Weekday())+6)%7)
}

// Add counts an item. Items that wait are left out, and of escalated ones only what two reviewers have decided counts.
func (c *Counter) Add(item *review.Item) {
	if first, second, ok := item.Pair(); ok {
		c.addPair(first, second)
	}
	decision := item.Final()
	if decision == nil || item.Status == review.Escalated {
		return
	}
	c.report.Items++
	rejected, sampled := item.Status == review.Refused, item.Cause == review.Sampled
	if item.Recommendation == "approve" || item.Recommendation == "reject" {
		c.report.Verdict.add(item.Recommendation == "reject", rejected)
	}
	if sampled {
		c.report.Sampled++
		c.report.Sample.add(item.Recommendation != "approve", rejected)
	}
	week := c.weeks[weekOf(decision.Time)]
	if week == nil {
		week = new(Share)
		c.weeks[weekOf(decision.Time)] = week
	}
	labels := item.Labels(c.names)
	for n := range c.report.Categories {
		category := &c.report.Categories[n]
		is, said := labels[category.Name]
		if !said {
			continue
		}
		flagged := slices.Contains(item.Flagged, category.Name)
		category.All.add(flagged, is)
		if sampled {
			category.Sample.add(flagged, is)
		}
		category.points = append(category.points, point{item.Probabilities[category.Name], is, sampled})
		week.add(flagged == is)
	}
}

func (c *Counter) addPair(first, second review.Decision) {
	pairs := &c.report.Pairs
	pairs.Both.add(first.Action == second.Action)
	for n, d := range []review.Decision{first, second} {
		if d.Action == review.Approve {
			pairs.Approved[n]++
		} else {
			pairs.Rejected[n]++
		}
	}
}

// Report returns what was counted. The counter is not used any more afterwards.
func (c *Counter) Report() *Report {
	for begin, agreement := range c.weeks {
		if agreement.Total > 0 {
			c.report.Weeks = append(c.report.Weeks, Week{begin, *agreement})
		}
	}
	slices.SortFunc(c.report.Weeks, func(a, b Week) int { return cmp.Compare(a.Begin.Unix(), b.Begin.Unix()) })
	return &c.report
}

// Differs returns the categories about which people and the judge differ, and whether they differ about the verdict:
// what it would approve was rejected, or the other way round.
func Differs(item *review.Item, categories []string) (about []string, verdict bool) {
	labels := item.Labels(categories)
	for _, name := range categories {
		if is, said := labels[name]; said && is != slices.Contains(item.Flagged, name) {
			about = append(about, name)
		}
	}
	verdict = item.Recommendation == "approve" && item.Status == review.Refused ||
		item.Recommendation == "reject" && item.Status == review.Approved
	return about, verdict
}
