"""Traits of things, and of their parts, as clause_traits.py reads them."""

TEXT = """
furniture machines fittings | <is> {v} wide; <has> a width of {v} | length | How wide <is> {s}? / What is the width
  of {s}?
furniture machines fittings vessels | <is> {v} high; <stand> {v} high | length | How high <is> {s}? / What is the
  height of {s}? / How tall <is> {s}?
furniture machines | <is> {v} deep; <measure> {v} from front to back | length | How deep <is> {s}? / What is the
  depth of {s}?
instruments vehicles tools clothes | <is> {v} long; <has> a length of {v} | length | How long <is> {s}? / What is
  the length of {s}?
furniture machines vehicles instruments vessels valuables animals | <weigh> {v}; <is> {v} in weight | weight | How
  much <does> {s} weigh? / What <does> {s} weigh? / How heavy <is> {s}?
furniture machines vehicles instruments vessels valuables clothes works | <cost> {v}; <is> on sale for {v}; <sell>
  for {v} | price | How much <does> {s} cost? / What <does> {s} cost? / What is the price of {s}?
furniture machines vehicles clothes | <cost> {v} to deliver; ! Delivery of {s} costs {v}.; ! Delivery of {s} is {v}
  more. | price | What does delivery of {s} cost? / How much is the delivery of {s}?
furniture vessels instruments tools clothes valuables | <is> made of {v}; <is> of {v}; <consist> of {v} | material |
  What <is> {s} made of? / Of what <is> {s} made? / What material <is> {s} of? / What do they make {s} of?
furniture machines vehicles clothes vessels papers instruments valuables | <is> {v}; <is> {v} in colour; <is>
  painted {v} | colour | What colour <is> {s}? / Of what colour <is> {s}? / In what colour <is> {s}?
furniture machines vehicles instruments vessels valuables | <is> made by {v}; <come> from {v}; ! The maker of {s} is
  {v}.; <is> a product of {v} | firm | Who makes {s}? / By whom <is> {s} made? / Which firm makes {s}? / Who is the
  maker of {s}?
furniture machines vehicles instruments vessels valuables clothes | <is> made in {v}; <is> built in {v}; <come> from
  a factory in {v} | town | Where <is> {s} made? / In which town <is> {s} made? / Where do they make {s}?
furniture vehicles | <hold> {v} people; <seat> {v}; <has> room for {v} | number | How many people <does> {s} hold? /
  How many people can {s} seat? / For how many people <has> {s} room?
furniture vehicles fittings | <bear> {v}; <carry> up to {v}; <must> not be loaded with more than {v} | weight | How
  much <does> {s} bear? / What load <does> {s} carry? / How much may be loaded on {s}?
vessels | <hold> {v}; <has> room for {v} | litres | How much <does> {s} hold? / What does {s} hold? / How many
  litres does {s} hold?
machines | <hold> {v}; <take> {v} of water | litres | How much water <does> {s} hold? / How much water <does> {s}
  take?
machines | <make> a noise of {v}; <is> as loud as {v}; <run> at {v} | decibels | How loud <is> {s}? / How much noise
  <does> {s} make?
machines vehicles | <use> {v}; <need> {v} | power | How much power <does> {s} use? / How much power <does> {s} need?
  / What power <does> {s} need?
machines vehicles furniture | <is> guaranteed for {v}; <has> a guarantee of {v} | years | How long <is> {s}
  guaranteed? / For how long <is> {s} guaranteed? / How long is the guarantee on {s}?
machines furniture clothes vehicles | ! The order number of {s} is {v}.; <has> the order number {v}; <is> listed as
  {v} | code | What is the order number of {s}? / Under what number <is> {s} listed?
machines | <need> {v} to warm up; <is> ready after {v}; <take> {v} to heat up | short | How long <does> {s} take to
  warm up? / After what time <is> {s} ready? / How long do people wait until {s} <is> ready?
machines furniture | <take> {v} to put together; ! It takes {v} to put {s} together. | short | How long does it take
  to put {s} together? / How much time does it take to assemble {s}?
machines vehicles | <is> to be oiled {v}; <must> be oiled {v}; <need> a drop of oil {v}; ! Oil {s} {v}. | frequency
  | How often should {s} be oiled? / How often <does> {s} need oil?
machines furniture vessels | <must> be cleaned {v}; ! Clean {s} {v}.; <want> a wash {v} | frequency | How often
  should {s} be cleaned? / How often must one clean {s}?
machines furniture vessels clothes instruments valuables | ! Do not use {v} on {s}.; ! Never clean {s} with {v}.;
  <must> not be cleaned with {v}; <do> not like {v} | stuff | What should not be used on {s}? / What must not be
  used on {s}? / With what must {s} not be cleaned?
machines furniture vessels clothes instruments | ! Clean {s} with {v}.; ! A little {v} removes stains from {s}.;
  <is> best cleaned with {v} | stuff2 | With what should {s} be cleaned? / What removes stains from {s}? / What <is>
  {s} cleaned with? / What should one clean {s} with?
machines clothes instruments papers valuables tools | <must> be kept {v}; ! Keep {s} {v}.; <belong> {v} | holder |
  Where must {s} be kept? / Where <is> {s} kept? / Where <do> {s} belong?
clothes papers valuables tools instruments vessels works | <is> {v}; <lie> {v}; <has> been {v} since then; ! One
  will find {s} {v}. | holder | Where <is> {s}? / Where <does> {s} lie? / Where can {s} be found? / Where should one
  look for {s}?
clothes furniture instruments works valuables vehicles | <is> {v} old; <has> been in use for {v}; ! The age of {s}
  is {v}. | years | How old <is> {s}? / What is the age of {s}?
valuables works instruments furniture | <was> made in {v}; <date> from {v}; ! On {s} stands the year {v}. | year |
  When <was> {s} made? / From which year <is> {s}? / What is the date of {s}?
valuables works instruments papers clothes tools vehicles | <belong> to {v}; <is> the property of {v}; ! The owner
  of {s} is {v}. | person | To whom <does> {s} belong? / Who owns {s}? / Whose property <is> {s}? / Whose <is> {s}?
valuables works instruments furniture | <is> by {v}; <is> the work of {v}; <is> signed by {v} | person | Who made
  {s}? / By whom <is> {s}? / Whose work <is> {s}?
valuables works papers instruments vehicles | <is> worth {v}; <is> insured for {v}; <has> been valued at {v} | price
  | What <is> {s} worth? / How much <is> {s} worth? / At how much has one valued {s}?
valuables clothes vessels furniture instruments | <is> shaped like {v}; <has> the shape of {v}; <look> like {v} |
  shape | What <is> {s} shaped like? / What shape <has> {s}? / What <does> {s} look like?
vehicles valuables instruments works | <is> called {v}; <has> the name {v}; <bear> the name {v} | name | What <is>
  {s} called? / What is the name of {s}? / What name <does> {s} bear?
valuables clothes papers works | <was> found {v}; <lay> {v} when somebody found <it> | holder | Where <was> {s}
  found? / Where <was> {s} discovered?
papers | <has> {v} pages; <run> to {v} pages | number | How many pages <has> {s}? / How many pages <does> {s} run
  to?
papers | <is> in {v}; <is> written in {v} | tongue | In what language <is> {s}? / What language <is> {s} written in?
papers | <is> about {v}; <deal> with {v} | topic | What <is> {s} about? / With what <does> {s} deal? / What is the
  subject of {s}?
papers | <is> valid until {v}; <expire> on {v} | date | Until when <is> {s} valid? / When <does> {s} expire?
papers | <is> dated {v}; <bear> the date of {v} | date | What is the date of {s}? / What date <does> {s} bear?
papers | <is> signed by {v}; <bear> the signature of {v} | person | Who signed {s}? / Whose signature <does> {s}
  bear? / By whom <was> {s} signed?
papers | <is> for {v}; <is> made out for {v} | price | How much <is> {s} for? / What sum <is> {s} for? / For how
  much <is> {s}?
papers | <is> addressed to {v}; <is> meant for {v} | person | To whom <is> {s} addressed? / For whom <is> {s}?
food dishes | <serve> {v}; <is> enough for {v} people; <feed> {v} | number | How many people <does> {s} serve? / For
  how many people <is> {s}? / How many people <does> {s} feed?
food dishes | <keep> for {v}; <last> {v} in a cool place; <stay> fresh for {v} | days | How long <does> {s} keep? /
  For how long <does> {s} keep? / How long <does> {s} last?
dishes | <is> baked for {v}; <need> {v} in the oven; <take> {v} to bake | short | How long <is> {s} baked? / How
  long <does> {s} need in the oven?
dishes | <is> eaten with {v}; <go> well with {v}; <is> served with {v} | food | What <is> {s} eaten with? / With
  what <is> {s} served? / What goes well with {s}?
dishes | <owe> {ps} colour to {v}; <get> {ps} colour from {v}; ! It is {v} that makes {s} so dark. | food | What
  makes {s} dark? / To what <does> {s} owe {ps} colour? / What gives {s} {ps} colour?
dishes | <is> called {v}; <go> by the name of {v} | name | What <is> {s} called? / By what name <does> {s} go?
dishes | <smell> of {v}; <taste> of {v} | food | What <does> {s} smell of? / Of what <does> {s} smell?
vessels furniture | <contain> {v}; ! In {s} there is {v}.; ! In {s} lies {v}. | a_goods | What <does> {s} contain? /
  What is in {s}? / What lies in {s}?
vessels furniture | ! {v} was found in {s}. | a_goods | What was found in {s}?
furniture machines | <come> with {v} {w}; ! There are {v} {w} in the box with {s}.; <arrive> with {v} {w} and a key
  | number small_parts | How many {w} come with {s}? / How many {w} are in the box with {s}?
furniture machines vehicles instruments | ! {v} <do> not go with {s}.; <do> not include {v} | the_extra | What does
  not go with {s}? / What <does> {s} not include? / What is not sold with {s}?
furniture machines vehicles instruments | ! {v} <go> with {s}.; <is> sold with {v} | the_extra2 | What goes with
  {s}? / What <is> {s} sold with?
machines | <turn> {v} when {w}; <glow> {v} when {w} | colour event_clause | What colour <is> {s} when {w}? / w:When
  does {s} change colour?
machines | ! The light on {s} is {v} when {w}.; ! A lamp on {s} shines {v} when {w}. | colour2 event_clause | What
  colour is the light on {s} when {w}? / What colour is the light when {w}?
machines | <run> at {v}; <work> at {v} | bar | At what pressure <does> {s} run? / At what pressure <does> {s} work?
machines | <switch> off at {v}; <reach> {v} | degrees | At what temperature <does> {s} switch off? / How hot <does>
  {s} get?
machines | <is> {v} fast; <run> {v} fast | short | By how much <is> {s} fast? / How fast <does> {s} run?
machines | <is> {v} slow | short | By how much <is> {s} slow?
machines vehicles | <run> on {v}; <burn> {v} | fuel | On what <does> {s} run? / What <does> {s} run on?
machines furniture vehicles instruments | <is> missing {v}; <lack> {v}; ! {v} of {s} is missing. | the_extra3 | What
  is missing from {s}? / What <does> {s} lack?
vehicles machines instruments furniture | ! The {v} {w} of {s} slips. | ordinal gap | Which {w} of {s} slips?
vehicles machines instruments furniture | ! The {v} {w} of {s} is broken. | ordinal gap | Which {w} of {s} is
  broken?
vehicles machines instruments furniture | ! The {v} {w} of {s} is loose.; ! On {s} the {v} {w} is loose. | ordinal
  gap | Which {w} of {s} is loose?
vehicles | ! There were {v} people on board of {s}. | number | How many people were on board of {s}?
vehicles | <carry> {v} passengers; <take> up to {v} passengers | number | How many passengers <does> {s} carry? /
  How many people <does> {s} take?
vehicles boats | <go> from {v} to {w} | town town | Where <does> {s} come from? / w:Where <does> {s} go? / w:To
  which town <does> {s} go?
valuables clothes instruments works | <was> exchanged for {v}; <was> given away for {v} | a_goods | For what <was>
  {s} exchanged? / What <was> {s} given away for?
valuables clothes instruments furniture | <was> a present from {v}; <was> given by {v} | person | From whom <was>
  {s} a present? / Who gave {s}?
valuables clothes vessels papers | <is> wrapped in {v} | wrap | What <is> {s} wrapped in? / In what <is> {s}
  wrapped?
valuables clothes vessels furniture | <is> decorated with {v}; <is> covered with {v} | motifs | What <is> {s}
  decorated with? / With what <is> {s} covered?
clothes | <is> lined with {v}; <has> a lining of {v} | material | What <is> {s} lined with? / With what <is> {s}
  lined?
tools vessels valuables clothes | <is> used for {v}; <serve> for {v} | gerund | What <is> {s} used for? / For what
  <is> {s} used?
tools clothes papers valuables | <is> needed because {v}; ! Everyone needs {s}, since {v}. | reason | Why <is> {s}
  needed?
furniture machines clothes papers | <must> not be put on {v}; ! Never put {s} on {v}. | the_furniture | On what must
  {s} not be put?
machines furniture instruments | <must> be kept away from {v}; ! Keep {s} away from {v}. | away | From what should
  {s} be kept away? / What must {s} be kept away from?
works | <show> {v}; ! On {s} one sees {v}. | scene | What <does> {s} show? / What can be seen on {s}?
works | <was> first shown in {v} | town | Where <was> {s} first shown?
texts | <was> left out because {v}; <was> dropped because {v} | reason | Why <was> {s} dropped? / Why <was> {s} left
  out?
furniture machines vehicles instruments clothes | <is> for sale because {v}; <is> to be given away, since {v} |
  reason | Why <is> {s} for sale? / Why <is> {s} given away?
furniture machines vehicles instruments | <was> bought new in {v}; <was> bought in {v} | year | When <was> {s}
  bought? / In which year <was> {s} bought?
furniture machines vehicles instruments clothes | <was> bought from {v}; <come> from {v}'s shop | person | From whom
  <was> {s} bought?
furniture machines vehicles instruments | ! The make of {s} is {v}.; <is> a {v}; <is> of the make {v} | brand | What
  make <is> {s}? / Of what make <is> {s}?
furniture machines vehicles instruments | <can> be seen at {v}; <stand> at {v}; <is> to be fetched from {v} | street
  | At what address can {s} be seen? / Where can {s} be seen?
furniture machines vehicles instruments | <can> be fetched {v}; ! Come for {s} {v}. | visit_time | When can {s} be
  fetched? / When may one come for {s}?
vessels machines | <boil> {v} of water in {w}; <need> {w} to boil {v} of water | litres short | w:How long <does>
  {s} take to boil {v} of water? / How much water <does> {s} boil in {w}?
vessels furniture | <is> enough for {v} people | number | For how many people <is> {s} enough?
dishes | ! {v} is too {w} for {s}.; ! Do not take {v} for {s}, it is too {w}. | food_mass too | What is too {w} for
  {s}?
dishes | ! Stale ends of {s} are used for {v}.; ! What is left of {s} goes into {v}. | dish | What are the rests of
  {s} used for? / What is made of the rests of {s}?
dishes | <should> rise for {v}; ! Let {s} rise for {v}. | short | How long should {s} rise? / How long <do> {s}
  rise?
dishes | <is> rubbed with {v}; ! Rub {s} with {v}. | food | What <is> {s} rubbed with? / With what should {s} be
  rubbed?
dishes | ! Scatter {v} over {s}.; ! {v} <is> scattered over {s} at the end. | food_mass | What is scattered over
  {s}?
dishes | ! Pour {v} over {s}.; <get> {v} poured over | liquid | What is poured over {s}?
dishes | ! Bake {s} at {v}.; <is> baked at {v} | degrees | How hot is the oven for {s}? / At what temperature <is>
  {s} baked? / How hot should the oven be for {s}?
dishes | ! Bake {s} in {v}.; <is> baked in {v} | bake_vessel | In what <is> {s} baked? / What <is> {s} baked in?
dishes | ! Do not cut {s} before {v}.; <must> not be cut before {v}  | next_time | When may {s} be cut?
dishes | ! Cover {s} with {v}.; <is> covered with {v} | wrap | With what <is> {s} covered? / What should {s} be
  covered with?
dishes | <need> {v} of {w}; ! Take {v} of {w} for {s}.; ! For {s} one needs {v} of {w}. | amount food | How much {w}
  <does> {s} need? / How much {w} is needed for {s}? / w:Of what <does> {s} need {v}?
dishes | <need> {v} {w}; ! Take {v} {w} for {s}. | few food_pieces | How many {w} <does> {s} need? / How many {w}
  are needed for {s}?
machines vehicles boats | <serve> only {v}; <is> there for {v} alone | the_object | What <does> {s} serve? / For
  what is {s} there?
machines vehicles instruments furniture | ! {v} {w} of {s} were broken.; ! Of the {w} of {s}, {v} were broken. | few
  small_parts | How many {w} of {s} were broken?
machines vehicles instruments furniture | ! {v} {w} of {s} are missing.; <lack> {v} {w} | few small_parts | How many
  {w} of {s} are missing?
machines vehicles boats instruments | ! {v} had got into {s}.; ! {v} was stuck in {s}. | a_thing | What had got into
  {s}? / What was stuck in {s}?
machines vehicles boats instruments furniture valuables clothes papers | ! On {s} stands the name {v}.; <has> the
  name {v} written on <it> | brand | What name stands on {s}? / What name <is> on {s}?
furniture tools vessels instruments | <is> made of {v}; <is> all of {v} | wood | What wood <is> {s} made of? / Of
  what wood <is> {s}?
vehicles boats | <run> {v}; <make> the journey {v} | frequency | How often <do> {s} run?
vessels machines | <weigh> {v} when empty; <weigh> {v} without water | weight | How much <does> {s} weigh when
  empty? / How heavy <is> {s} without water?
machines vehicles furniture | <cost> {v} with {aw}; <is> to be had for {v} with {aw} | price goods | What <does> {s}
  cost with {aw}?
"""

PARTS = """
furniture: legs* seat back drawers* handles* top feet* castors* doors* frame hinges* shelves* corners* armrests*
machines: lid handle foot cable base motor knob switch case element door grille valve filter
vehicles: saddle tyres* frame wheels* bell seats* hood lamp pedals* basket bodywork bumper brakes*
instruments: bow strings* keys* neck case pedals* bridge mouthpiece lid body pegs*
vessels: lid handle spout rim bottom foot inside stopper
clothes: buttons* collar lining sleeves* belt hood pockets* hem cuffs*
buildings: roof floor walls* windows* doors* tower cellar stairs* gate shutters* ceiling pillars*
valuables: chain lid clasp handle case dial stem base hands*
animals: tail collar left-ear paws* nose back belly right-eye
"""

PART_TEXT = """
furniture machines vehicles instruments vessels clothes buildings valuables | <is> made of {v}; <is> of {v} |
  material | What <is> {s} made of? / Of what <is> {s} made? / What material <is> {s} of?
furniture machines vehicles instruments vessels clothes buildings valuables animals | <is> {v}; <is> painted {v} |
  colour | What colour <is> {s}? / Of what colour <is> {s}?
furniture machines vehicles instruments vessels clothes valuables | <was> replaced by {v}; <was> repaired by {v} |
  person | Who replaced {s}? / By whom <was> {s} repaired?
furniture machines vehicles instruments vessels | <is> shaped like {v}; <look> like {v} | shape | What <is> {s}
  shaped like? / What <does> {s} look like?
furniture machines vehicles instruments buildings valuables | <come> from {v}; <was> made in {v} | town | Where <do>
  {s} come from? / Where <was> {s} made?
furniture machines vehicles vessels | <is> guaranteed for {v} | years | How long <is> {s} guaranteed?
furniture machines vehicles vessels instruments | <cost> {v} to replace; ! To replace {s} costs {v}. | price | What
  does it cost to replace {s}? / How much does it cost to replace {s}?
furniture machines vehicles vessels instruments buildings | <must> be oiled {v}; <must> be cleaned {v}; <is> checked
  {v} | frequency | How often <is> {s} looked after?
furniture machines vehicles vessels | ! Clean {s} with {v}.; <is> best cleaned with {v} | stuff | With what should
  {s} be cleaned? / What should {s} be cleaned with?
"""
