"""Traits of buildings, events and what else is spoken of in public, as clause_traits.py reads them."""

TEXT = """
buildings | <was> built in {v}; <date> from {v} | year | When <was> {s} built? / In which year <was> {s} built? /
  From what year <is> {s}?
buildings | <was> {v} until the war; <used> to be {v}; <was> once {v} | building | What <was> {s} before? / What did
  {s} use to be? / What was {s} once?
buildings | <belong> to {v}; <is> owned by {v} | person | Who owns {s}? / To whom <does> {s} belong?
buildings | <has> {v} rooms; <contain> {v} rooms | number | How many rooms <has> {s}? / How many rooms are there in
  {s}?
buildings | <seat> {v}; <hold> {v} people | count | How many people <does> {s} hold? / How many people can sit in
  {s}?
buildings | <was> designed by {v}; <was> built by {v} | person | Who built {s}? / By whom <was> {s} designed? / Who
  designed {s}?
buildings | <is> closed on {v}; <is> open every day except {v}; <keep> {ps} doors shut on {v} | days_off | On which
  day <is> {s} closed? / When <is> {s} closed? / On what day <is> {s} not open?
buildings | <open> at {v}; <is> open from {v} | hour | When <does> {s} open? / At what time <does> {s} open? / From
  what time <is> {s} open?
buildings | <close> at {v}; <is> open until {v} | hour | When <does> {s} close? / At what time <does> {s} close? /
  Until when <is> {s} open?
buildings | <stand> {v}; <lie> {v}; <is> {v} | place | Where <is> {s}? / Where <does> {s} stand? / Where <does> {s}
  lie?
buildings | <is> {v} high; <has> a height of {v} | metres | How high <is> {s}? / What is the height of {s}? / How
  tall <is> {s}?
buildings | ! Entrance to {s} is {v}.; <charge> {v} for entrance; <cost> {v} to enter | price | What does entrance
  to {s} cost? / How much is the entrance to {s}? / How much <does> {s} charge for entrance?
buildings | ! The rent of {s} is {v} a month.; <is> let for {v} a month | price | How much is the rent of {s}? /
  What is the monthly rent of {s}? / For how much <is> {s} let?
buildings | <is> let for {v}; <is> rented out for {v} | months | How long <is> {s} let? / For how long <is> {s}
  rented out?
buildings | ! The key to {s} is kept by {v}.; ! {v} has the key to {s}.; ! Whoever wants to see {s} asks {v} for the
  key. | person | Who has the key to {s}? / Whom does one ask for the key to {s}? / By whom is the key to {s} kept?
buildings events | ! The telephone number of {s} is {v}.; <can> be reached under {v} | phone | What is the telephone
  number of {s}? / Under which number can one reach {s}?
events | <take> place on {v}; <is> on {v}; <will> be held on {v} | date | When <is> {s}? / On what day <is> {s}? /
  When do they hold {s}? / On what date <does> {s} take place?
events | <begin> at {v}; <start> at {v} | hour | At what time <does> {s} begin? / When <does> {s} start? / At what
  hour <does> {s} begin?
events | <end> at {v}; <is> over at {v}; <close> at {v} | hour | When <does> {s} end? / At what time <is> {s} over?
events | <take> place {v}; <is> held {v}; <will> be {v} | place | Where <is> {s}? / Where <does> {s} take place? /
  Where <is> {s} held?
events | <last> {v}; <go> on for {v} | duration | How long <does> {s} last? / For how long <does> {s} go on?
events | <is> organised by {v}; <is> run by {v}; <is> led by {v} | person | Who organises {s}? / By whom <is> {s}
  run? / Who leads {s}? / Who runs {s}?
events | <cost> {v} a head; ! A ticket for {s} costs {v}.; ! Entrance to {s} is {v}. | price | What does a ticket
  for {s} cost? / How much does it cost to go to {s}? / How much is the entrance to {s}?
events | <is> expected to draw {v} people; ! For {s} {v} people have put down their names.; <has> places for {v}
  people | count | How many people are expected at {s}? / For how many people <has> {s} places?
events | ! {v} brings the chairs for {s}.; ! The chairs for {s} come from {v}. | person | Who brings the chairs for
  {s}? / From whom are the chairs for {s}?
events | ! {v} must be brought to {s}.; ! Whoever comes to {s} should bring {v}. | a_thing | What should be brought
  to {s}? / What must one bring to {s}?
events | <is> in aid of {v}; <raise> money for {v} | the_object | What <does> {s} raise money for? / In aid of what
  <is> {s}?
events | ! Names for {s} are taken by {v}.; ! Whoever wants to come to {s} should write to {v}. | person | To whom
  should one write about {s}? / Who takes the names for {s}?
buildings | <contain> {v} {w}; <has> {v} {w}; ! There are {v} {w} in {s}. | number goods_many | How many {w} <does>
  {s} contain? / How many {w} are there in {s}? / How many {w} <has> {s}?
buildings events | ! Entrance to {s} is free {v}.; <cost> nothing {v} | cond_full | When is entrance to {s} free? /
  On what condition is entrance to {s} free?
buildings | <is> shut because {v}; <is> closed for now because {v} | reason | Why <is> {s} shut? / Why <is> {s}
  closed?
buildings | <is> shut for {v}; <is> closed for {v} | repairs | Why <is> {s} shut? / For what <is> {s} shut?
buildings | <is> shut until {v}; ! Until {v} {s} is shut. | date | Until when <is> {s} shut?
buildings | <is> {v} from the station; <lie> {v} from the station | distance | How far <is> {s} from the station? /
  What is the distance from {s} to the station?
buildings | <is> heated with {v}; <burn> {v} in winter | fuel | What <is> {s} heated with? / With what <is> {s}
  heated?
buildings | burned down in {v}; <has> stood empty since it burned in {v} | year2 | When did {s} burn down? / In
  which year did {s} burn?
buildings | ! It took {v} to build {s}.; <was> built in {v}; took {v} to build | long_time | How long did it take to
  build {s}? / In what time <was> {s} built?
buildings | <cost> {v} to build; ! {v} was paid for the building of {s}. | price | What did the building of {s}
  cost? / How much did it cost to build {s}?
buildings | <smell> of {v} | stuff | What <does> {s} smell of?
buildings | <is> famous for {ps} {v}; <is> known for {ps} {v} | goods_many | What <is> {s} famous for? / For what
  <is> {s} known?
buildings | <is> haunted by {v}; ! In {s} one meets the ghost of {v}. | trade | By whom <is> {s} haunted? / Whose
  ghost is in {s}?
buildings | ! {v} lives above {s}. | person | Who lives above {s}?
buildings | <is> looked after by {v}; ! {v} looks after {s}. | person | Who looks after {s}? / By whom <is> {s}
  looked after?
buildings | ! In the cellar of {s} stands {v}.; ! In the cellar of {s} there is {v}. | a_goods | What is in the
  cellar of {s}? / What stands in the cellar of {s}?
buildings | ! In the attic of {s} somebody found {v}.; ! {v} was found in the attic of {s}. | a_goods | What was
  found in the attic of {s}?
buildings | ! {v} is kept behind {s}.; ! Behind {s} stands {v}. | a_goods | What stands behind {s}? / What is behind
  {s}?
buildings | <stand> on {v}; <is> on {v} | floor | On which floor <is> {s}?
buildings | lost {v} in the storm; lost {v} last winter | own_part | What did {s} lose? / What has {s} lost?
buildings | <serve> only {v}; <is> there for {v} alone | people_many | Whom <does> {s} serve? / For whom <is> {s}?
events | <was> put off because {v} | reason | Why <was> {s} put off?
events | <was> cancelled because {v} | reason | Why <was> {s} cancelled?
events | <is> on {v}; <take> place on {v}; ! There is {s} on {v}. | weekday | On which day <is> {s}? / On what
  weekday <is> {s}? / s:What is on {v}? / s:What takes place on {v}?
events | <is> opened with {v}; <begin> with {v} | opening_act | With what <does> {s} begin? / What <is> {s} opened
  with?
events | ! The prize at {s} is {v}.; ! At {s} one can win {v}. | a_goods | What is the prize at {s}? / What can one
  win at {s}?
events | ! The winner of {s} was {v}.; <was> won by {v} | person | Who won {s}? / By whom <was> {s} won?
events | ! {v} plays at {s}.; ! The music at {s} is by {v}. | person | Who plays at {s}? / Who makes the music at
  {s}?
events | ! {v} people came to {s}.; <was> attended by {v} people | count | How many people came to {s}? / How many
  people attended {s}?
events | ! {v} baked the cake for {s}.; ! The cake for {s} was baked by {v}. | person | Who baked the cake for {s}?
events | ! Nobody may bring {v} to {s}.; ! {v} must stay at home during {s}. | goods_many | What may not be brought
  to {s}? / What must not be brought to {s}?
sums | <is> {v}; <amount> to {v}; <come> to {v}; <is> put at {v} | price | How much <is> {s}? / How large <is> {s}?
  / What <does> {s} come to?
sums | <is> due on {v}; <has> to be paid by {v} | date | When <is> {s} due? / By what date has {s} to be paid?
sums | <is> paid by {v}; ! {v} pays {s}. | person | Who pays {s}? / By whom <is> {s} paid?
sums | <is> handed to {v}; <go> to {v} | person | Who gets {s}? / To whom <is> {s} handed?
sums | <is> left {v}; <lie> {v} | holder | Where <is> {s} left? / Where <do> {s} lie?
sums | <is> to be paid {v}; <is> paid {v} | frequency | How often <is> {s} paid?
sums | <is> due on the {v} of the month; <has> to be there by the {v} of the month | ordinal_day | On which day of
  the month <is> {s} due?
sums | <change> from {w} to {v} in May; ! In May {s} will change from {w} to {v}. | price price | How much will {s}
  be from May on? / w:How much <is> {s} before May?
sums | <is> not owed if {v}; ! {s} need not be paid if {v}. | cond | When need {s} not be paid? / When <is> {s} not
  owed?
jobs | <begin> on {v}; <start> on {v} | date | When <does> {s} begin? / On what day <does> {s} start?
jobs | <go> on until {v}; <last> until {v}; <is> over on {v} | date2 | Until when <does> {s} last? / When <is> {s}
  over?
jobs | <last> {v}; <take> {v} | duration | How long <does> {s} last? / How long <does> {s} take?
jobs | <is> done by {v}; ! {v} <do> {s}.; <is> in the hands of {v} | firm | Who does {s}? / Which firm does {s}? /
  In whose hands <is> {s}?
jobs | <is> on {v}; ! There will be noise from {s} on {v}. | weekday | On which day <is> {s}? / On what day is there
  noise from {s}?
jobs | <is> loudest between {v} and {w} | hour hour | From what time <is> {s} loudest? / w:Until what time <is> {s}
  loudest?
jobs | <is> necessary because {v}; <is> done because {v} | reason | Why <is> {s} necessary? / Why <is> {s} done?
jobs | <cost> {v}; ! The price of {s} is {v}. | price | What <do> {s} cost? / How much <do> {s} cost? / What will
  {s} cost?
jobs | <was> agreed by {v} votes to {w}; <was> passed by {v} votes to {w} | number few | How many voted for {s}? /
  w:How many voted against {s}?
posts | <is> for {v} hours a week; ! {s} takes {v} hours a week. | number | How many hours a week <is> {s}? / How
  many hours a week does {s} take?
posts | <begin> on {v}; <is> free from {v} | date | When <does> {s} begin? / From when <is> {s} free?
posts | <bring> {v} an hour; <is> paid at {v} an hour | wage | How much is paid an hour for {s}? / What <does> {s}
  bring an hour?
posts | <come> with {v} weeks of holiday; ! There are {v} weeks of holiday with {s}. | few | How many weeks of
  holiday <come> with {s}?
posts | ! For {s} one should know {v}.; <ask> for some {v} | tongue | Which language should one know for {s}? / What
  language <does> {s} ask for?
posts | ! Whoever wants {s} writes to {v}.; ! Letters about {s} go to {v}. | person | To whom should one write about
  {s}? / Who gets the letters about {s}?
posts | ! One encloses {v} when writing about {s}.; ! {v} must be enclosed with letters about {s}. | a_goods | What
  must be enclosed with letters about {s}? / What must one enclose when writing about {s}?
posts | <was> held by {v} for {w} | person years | Who held {s} before? / w:For how long <was> {s} held by {v}?
posts | ! The workshop for {s} is on {v}. | floor | On which floor is the workshop for {s}?
posts | ! On {v} {s} means work with school classes.; ! School classes come on {v} to see {s}. | weekdays | On which
  day do school classes come to see {s}?
posts | ! Letters about {s} are answered by {v}. | date | By when are letters about {s} answered?
trips | <begin> {v}; <start> {v} | place | Where <does> {s} begin? / Where do they meet for {s}?
trips | <begin> at {v}; <start> at {v} | hour | At what time <does> {s} begin? / When does {s} start?
trips | <is> on {v}; <take> place on {v} | date | When <is> {s}? / On what day <is> {s}? / On which date <is> {s}?
trips | ! Those who come on {s} are back at {v}.; <end> at {v} | hour | When <does> {s} end? / At what time are they
  back from {s}?
trips | <cost> {v}; ! The price of {s} is {v}. | price | What <does> {s} cost? / How much <does> {s} cost?
trips | ! The bus for {s} is driven by {v}.; ! {v} drives the bus for {s}. | person | Who drives the bus for {s}? /
  By whom is the bus for {s} driven?
trips | ! {v} collects the money for {s}.; ! The money for {s} is collected by {v}. | person | Who collects the
  money for {s}? / By whom is the money for {s} collected?
trips | ! Each child needs {v} for {s}, since {w}.; ! {v} <is> needed for {s}, because {w}. | a_goods reason | What
  does each child need for {s}? / What is needed for {s}? / w:Why is {v} needed for {s}?
trips | ! {v} stay at home during {s}.; ! Nobody takes {v} on {s}. | goods_many | What stays at home during {s}? /
  What should not be taken on {s}?
trips | ! On {s} the children will make {v}.; ! On {s} everyone makes {v}. | a_goods | What will the children make
  on {s}? / What will be made on {s}?
trips | ! {v} comes along on {s}.; ! {v} has agreed to come along on {s}. | person | Who comes along on {s}? / Who
  has agreed to come along on {s}?
trips | ! No more than {v} may be taken on {s}.; ! Nobody may take more than {v} on {s}. | price | How much money
  may be taken on {s}?
leases | ! The owner is {v} in {s}.; ! In {s} the owner is {v}. | person | Who is the owner in {s}?
leases | ! The tenant in {s} is {v}.; <is> signed by {v} as the tenant | person | Who is the tenant in {s}?
leases | <run> for {v}; <last> {v} | months | How long <does> {s} run? / For how long <does> {s} run?
leases | <begin> on {v}; <run> from {v} | date | When <does> {s} begin? / From when <does> {s} run?
leases | ! The rent in {s} is {v} a month.; <name> a rent of {v} a month | price | How much is the rent in {s}? /
  What rent <does> {s} name?
leases | ! The deposit in {s} is {v}.; <ask> for a deposit of {v} | price | How much is the deposit in {s}? / How
  large is the deposit in {s}?
leases | <can> be ended by notice of {v}; ! The notice in {s} is {v}. | months | How long is the notice in {s}? / By
  what notice can {s} be ended?
leases | ! The witness to {s} is {v}.; <was> signed before {v} | person | Who is the witness to {s}?
leases | <forbid> {v}; <do> not allow {v} | goods_many | What <does> {s} forbid? / What <does> {s} not allow?
firm | <sit> in {v}; <is> in {v}; <come> from {v} | town | Where <is> {s}? / In which town <is> {s}?
firm | <employ> {v} people; <has> {v} workers | count | How many people <does> {s} employ? / How many workers <has>
  {s}?
firm | <was> founded in {v}; <has> existed since {v} | year | When <was> {s} founded? / Since when <has> {s}
  existed?
firm | <was> founded by {v} | person | Who founded {s}? / By whom <was> {s} founded?
firm | <is> run by {v}; <is> led by {v} | person | Who runs {s}? / By whom <is> {s} run?
firm | ! The telephone number of {s} is {v}.; <can> be reached under {v} | phone | What is the telephone number of
  {s}? / Under which number can one reach {s}?
firm | <make> nothing but {v}; <live> by making {v} | goods_many | What <does> {s} make?
firm | <ask> {v} for the work; <want> {v} for the work | price | How much <do> {s} want for the work? / What <do>
  {s} ask for the work?
firm | <close> at {v}; <is> open until {v} | hour | Until when <is> {s} open? / When <does> {s} close?
plants | <is> {v} high; <has> reached a height of {v} | metres | How high <is> {s}? / How tall <is> {s}?
plants | <was> planted by {v}; ! {v} planted {s}. | person | Who planted {s}? / By whom <was> {s} planted?
plants | <was> planted in {v} | year | When <was> {s} planted?
plants | <is> watered with {v} | drink | What <is> {s} watered with?
plants | <grow> {v}; <stand> {v} | place | Where <does> {s} grow? / Where <does> {s} stand?
plants | <has> {v} flowers | colour | What colour are the flowers of {s}?
plants | <belong> to {v} | person | To whom <does> {s} belong?
buildings | ! In {s} one should see {v} first.; ! In {s}, begin with {v}. | the_goods | What should one see first in
  {s}? / With what should one begin in {s}?
buildings firm | <is> looking for {v}; ! Wanted by {s}: {v}. | trade | Who is wanted by {s}? / What helper <is> {s}
  looking for? / Whom <is> {s} looking for?
dues | <is> due {v}; <is> to be expected {v} | future_time | When <is> {s} due? / When <is> {s}?
dues | <is> done by {v}; ! {v} sees to {s}. | person | Who does {s}? / By whom <is> {s} done? / Who sees to {s}?
dues | <cost> {v}; ! The price of {s} will be {v}. | price | What does {s} cost? / How much will {s} cost?
dues | <take> {v}; <last> {v} | duration | How long <does> {s} take? / How long <does> {s} last?
"""
