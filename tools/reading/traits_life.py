"""Traits of persons and animals, as clause_traits.py reads them."""

TEXT = """
animals | <is> called {v}; <answer> to {v}; <answer> to the name of {v} | name | What <is> {s} called? / What is the
  name of {s}? / To what name <does> {s} answer?
animals | <eat> nothing but {v}; <live> on {v}; <is> fed on {v}; <will> do anything for {v} | bite | What <does> {s}
  eat? / On what <does> {s} live? / What <is> {s} fed on?
animals | <sleep> {v}; <spend> the night {v}; <hide> {v} | holder | Where <does> {s} sleep? / Where <does> {s} spend
  the night?
animals | <is> {v} old; <has> reached the age of {v} | years | How old <is> {s}? / What is the age of {s}?
animals | <is> afraid of {v}; <fear> nothing but {v}; <run> away from {v} | fear | What <is> {s} afraid of? / Of
  what <is> {s} afraid? / What <does> {s} fear?
animals | <belong> to {v}; <is> owned by {v} | person | Whose <is> {s}? / To whom <does> {s} belong? / Who owns {s}?
animals | <say> "{v}" whenever the bell rings; <has> learned to say "{v}"; <can> say "{v}" | saying | What <does>
  {s} say? / What can {s} say? / What has {s} learned to say?
animals | <was> last seen {v}; ! Somebody saw {s} {v}. | place | Where <was> {s} last seen? / Where <was> {s} seen?
person | <is> {v} old; <has> reached the age of {v}; <will> be {v} old in May | years | How old <is> {s}? / What is
  the age of {s}? / What age <is> {s}?
person | <was> born in {v}; <come> from {v}; <grew> up in {v} | town | Where <was> {s} born? / Where <does> {s} come
  from? / From which town <is> {s}? / Where did {s} grow up?
person | <was> born on {v}; <keep> {ps} birthday on {v} | date | When <was> {s} born? / When is the birthday of {s}?
  / On what day <was> {s} born?
person | <is> married to {v}; ! The husband or wife of {s} is {v}. | person | To whom <is> {s} married? / Who is
  married to {s}?
person | <has> {v} children; <is> the parent of {v} children | few | How many children <has> {s}? / How many
  children <does> {s} have?
person | <has> {v} brothers and sisters; <grew> up with {v} brothers and sisters | few | How many brothers and
  sisters <has> {s}?
person | <speak> {v}; <is> fluent in {v}; <has> learned {v} | tongue | What language <does> {s} speak? / Which
  language <does> {s} know? / In what language <is> {s} fluent?
person | <play> {v}; <is> good at {v} | game | What <does> {s} play? / Which game <does> {s} play? / What <is> {s}
  good at?
person | <collect> {v}; <has> a collection of {v} | collection | What <does> {s} collect? / Of what <has> {s} a
  collection?
person | <is> afraid of {v}; <is> terrified of {v}; <can> not bear {v} | fear | What <is> {s} afraid of? / Of what
  <is> {s} afraid?
person | <is> allergic to {v}; <do> not eat {v}; <can> not stand {v} | food | What <do> {s} not eat? / To what <is>
  {s} allergic? / What can {s} not stand?
person | <work> as {v}; <is> {v} by trade; <earn> {ps} living as {v} | trade | What <does> {s} work as? / What is
  the trade of {s}? / What <is> {s} by trade? / As what <does> {s} work?
person | <was> {v} before; <used> to work as {v}; <started> out as {v} | trade2 | What <was> {s} before? / As what
  did {s} start out? / What did {s} use to be?
person | <work> for {v}; <is> employed by {v} | firm | For whom <does> {s} work? / Who employs {s}? / By whom <is>
  {s} employed?
person | <earn> {v} a week; <is> paid {v} a week | price | How much <does> {s} earn? / What <is> {s} paid a week? /
  How much <is> {s} paid?
person | <live> at {v}; ! The address of {s} is {v}. | street | At what address <does> {s} live? / What is the
  address of {s}?
person | ! The telephone number of {s} is {v}.; <can> be reached under {v}; <has> the telephone number {v} | phone |
  What is the telephone number of {s}? / Under which number can one reach {s}?
person | <is> {v} tall; <measure> {v} | height | How tall <is> {s}? / What is the height of {s}?
person | <is> called {v} by everyone; ! Everyone calls {s} {v}.; <go> by the name of {v} | name | What <does>
  everyone call {s}? / What <is> {s} called by everyone? / By what name <does> {s} go?
person | <keep> {v}; <has> {v} at home; <own> {v} | pet | What animal <does> {s} keep? / What animal <has> {s} at
  home? / What <does> {s} keep at home?
person | <sleep> in {v}; <live> in {v}; <has> a room in {v} | the_room | Where <does> {s} have a room? / Where
  <does> {s} sleep? / In what <does> {s} live?
person | <has> never seen {v}; <long> to see {v}; <dream> of seeing {v} | sight | What <do> {s} long to see? / What
  <does> {s} dream of?
person | <has> been in {ps} post since {v}; <took> up {ps} post in {v} | year | Since when <has> {s} been in {ps}
  post? / When did {s} take up {ps} post?
person | <retire> after {v}; <will> retire after {v} of service | years | After how long <does> {s} retire? / How
  long <was> {s} in service?
person | <has> the key to {v}; <keep> the key to {v} | the_room | What <does> {s} have the key to? / To what <does>
  {s} have the key?
person | <read> nothing but {v}; <like> only books about {v} | topic | What <does> {s} read about? / What books
  <does> {s} like?
person | <is> responsible for {v}; <look> after {v} | the_object | For what <is> {s} responsible? / What <does> {s}
  look after?
person | <owe> the grocer {v}; <is> in debt to the bank for {v} | price | How much <does> {s} owe? / How large are
  the debts of {s}?
person | lived to {v}; died at the age of {v}; reached the age of {v} | age | How old did {s} become? / At what age
  did {s} die? / What age did {s} reach?
person | died {v} | past_time | When did {s} die?
person | could not come because {v}; stayed away because {v}; sent apologies because {v} | reason | Why could {s}
  not come? / Why <was> {s} absent? / Why did {s} stay away?
person | <do> not {w} any more because {v}; no longer gets to {w} because {v} | reason activity | Why <does> {s} not
  {w} any more? / Why <does> {s} no longer {w}?
person | did not {w} because {v}; refused to {w} because {v} | reason deed | Why did {s} not {w}? / For what reason
  did {s} not {w}? / w:What did {s} not do?
person | had to {w} because {v} | reason deed | Why did {s} have to {w}? / w:What did {s} have to do?
person | <has> promised to {v}; promised to {v} | deed | What has {s} promised to do? / What did {s} promise?
person | <mean> to {v}; <want> to {v}; <intend> to {v}; <hope> to {v} | deed | What <does> {s} want to do? / What
  <does> {s} mean to do?
person | forgot to {v}; <has> forgotten to {v} | deed | What did {s} forget to do? / What did {s} forget?
person | <is> not allowed to {v}; <is> forbidden to {v}; <must> not {v} | deed | What <is> {s} not allowed to do? /
  What must {s} not do? / What <is> {s} forbidden to do?
person | offered to {v}; agreed to {v} | deed | What did {s} agree to do? / What did {s} offer to do?
person | <is> looking for {v}; <look> for {v} everywhere | a_goods | What <is> {s} looking for? / What <does> {s}
  look for?
person | <need> {v}; <is> in need of {v} | a_goods | What <does> {s} need? / What <is> {s} in need of?
person | <like> anything by {v}; <love> the songs of {v}; <admire> the music of {v} | person | Whose music <does>
  {s} like? / Whose songs <does> {s} like?
person | <use> {v} instead of {w}; <prefer> {v} to {w}; never used {w}, only {v} | a_goods a_goods | What <does> {s}
  use instead of {w}? / What <does> {s} use in place of {w}?
person | crossed {w} in {v}; needed {v} to cross {w} | span water | How long did it take {s} to cross {w}? / In what
  time did {s} cross {w}? / How long did {s} need to cross {w}?
person | walked {v} to be in time; walked {v} that day; <walk> {v} to work | distance | How far did {s} walk? / What
  distance did {s} walk?
person | paid {v} for {aw}; gave {v} for {aw}; spent {v} on {aw} | price goods | How much did {s} pay for the {w}? /
  What did {s} pay for the {w}? / What did the {w} cost {s}? / aw:What did {s} pay {v} for?
person | got {v} for {aw}; received {v} for {aw} | price goods | How much did {s} get for the {w}? / What did {s}
  receive for the {w}?
person | <ask> {v} for the {w}; <want> {v} for the {w} | price goods | How much <does> {s} want for the {w}? / How
  much <does> {s} ask for the {w}?
person | <get> {v} an hour; <is> paid {v} an hour | wage | How much <does> {s} get an hour? / What <is> {s} paid an
  hour?
person | <work> {v} hours a week; <work> for {v} hours a week | number | How many hours a week <does> {s} work?
person | <mend> {v} {w} a month; <get> through {v} {w} a month | number goods_many | How many {w} <does> {s} mend in
  a month? / How many {w} a month <does> {s} mend?
person | <sell> {v} {w} a week; <get> rid of {v} {w} a week | number goods_many | How many {w} <does> {s} sell in a
  week? / How many {w} a week <does> {s} sell?
person | <get> up at {v}; <rise> at {v} | hour | When <does> {s} get up? / At what time <does> {s} rise?
person | <go> to bed at {v}; never goes to bed before {v} | hour | When <does> {s} go to bed? / At what time <does>
  {s} go to bed?
person | <is> at the desk until {v}; <stay> in the office until {v} | hour | Until when <is> {s} in the office? /
  Until when <is> {s} at the desk?
person | <eat> {v} for breakfast; <breakfast> on {v} | food | What <does> {s} eat for breakfast? / What <does> {s}
  have for breakfast?
person | <drink> nothing but {v} | drink | What <does> {s} drink?
person | <study> {v}; <is> a student of {v} | subject | What <does> {s} study? / What subject <does> {s} study?
person | <teach> {v}; <give> lessons in {v} | subject | What <does> {s} teach? / In what <does> {s} give lessons?
person | <was> named after {v}; <has> the name of {v} | person | After whom <was> {s} named? / Who <was> {s} named
  after?
person | <is> the {w} of {v}; ! {v} is lucky to have {s} as a {w}. | person kin | Whose {w} <is> {s}?
person | <is> engaged to {v}; <was> once engaged to {v} | person | To whom <is> {s} engaged? / Who <is> {s} engaged
  to?
person | learned {w} from {v}; <was> taught {w} by {v} | person skill | From whom did {s} learn {w}? / Who taught
  {s} {w}? / w:What did {s} learn from {v}?
person | <was> bitten by {v}; <has> been bitten by {v} | pet | What bit {s}? / By what <was> {s} bitten?
person | <was> chased down the road by {v} | pet | What chased {s} down the road? / By what <was> {s} chased?
person | found {v} in {w}; came upon {v} in {w} | a_goods odd_holder | What did {s} find in {w}? / w:In what did {s}
  find {v}?
person | left {v} in {w}; forgot {v} in {w} | a_goods odd_holder | What did {s} leave in {w}? / w:In what did {s}
  leave {v}?
person | carried {v} during the war; smuggled {v} during the war | goods_stuff | What did {s} carry during the war?
person | <was> {v} during the war; served as {v} during the war | trade2 | What <was> {s} during the war? / As what
  did {s} serve?
person | <has> lost {v}; lost {v} in the storm | own | What has {s} lost? / What did {s} lose?
person | asked for {v}; <has> asked for {v} | goods_stuff | What did {s} ask for?
person | <suffer> from {v}; <is> in bed with {v} | ailment | What <does> {s} suffer from? / From what <does> {s}
  suffer?
person | <go> to work {v}; <come> to the office {v} | vehicle | How <does> {s} go to work? / How <does> {s} get to
  work?
person | <lodge> with {v}; <live> with {v} | person | With whom <does> {s} live? / Who <does> {s} live with?
person | voted against {v}; <was> against {v} in the vote | topic | Against what did {s} vote? / What did {s} vote
  against?
person | <is> famous for {ps} {v}; <is> known for {ps} {v} | goods_many | What <is> {s} famous for? / For what <is>
  {s} known?
person | ! {so} {w} is {v} by trade.; ! {so} {w} works as {v}. | trade2 kin | What is the {w} of {s}? / What does
  the {w} of {s} work as? / What is {so} {w} by trade?
person | ! {so} {w} is called {v}.; ! {v} is the name of {so} {w}. | first kin | What is the {w} of {s} called? /
  What is the name of {so} {w}? / Who is {so} {w}?
person | ! {so} {w} lives in {v}.; ! {so} {w} has moved to {v}. | town kin | Where does the {w} of {s} live? / In
  which town does {so} {w} live?
person | ! {so} {w} has {v} children.; ! {so} {w} is the mother or father of {v}. | few kin | How many children has
  {so} {w}?
person | ! {so} favourite colour is {v}.; <wear> nothing but {v} | colour | What is the favourite colour of {s}? /
  What colour <does> {s} like?
person | <swim> only on {v}; <go> swimming on {v} | weekdays | On which day <does> {s} swim? / When <does> {s} swim?
  / When <does> {s} go swimming?
person | <rest> on {v}; <do> no work on {v} | weekdays | On which day <does> {s} rest? / When <do> {s} not work?
person | <wind> the clocks on {v}; ! The clocks are wound by {s} on {v}. | weekdays | When <does> {s} wind the
  clocks? / On which day <does> {s} wind the clocks?
person | <bake> bread on {v}; <do> {ps} baking on {v} | weekdays | When <does> {s} bake? / On which day <does> {s}
  bake?
person | <sing> {v} in the choir | voice | What <does> {s} sing in the choir? / Which voice <does> {s} sing?
person | <play> {v} in the band | the_instrument | What <does> {s} play in the band? / Which instrument <does> {s}
  play in the band?
person | <believe> that {v}; <is> sure that {v} | belief | What <does> {s} believe? / Of what <is> {s} sure?
person | <live> on {v}; <has> a flat on {v} | floor | On which floor <does> {s} live? / On what floor <does> {s}
  live?
person | <has> just sold {v}; <has> got rid of {v} | own | What has {s} just sold? / What has {s} got rid of?
person | said: "{v}" | saying | What did {s} say?
person | <write> with {v}; never writes except with {v} | pen | With what <does> {s} write? / What <does> {s} write
  with?
person | ! If {w}, please tell {s}.; ! Tell {s} if {w}. | none cond | s:Who should be told if {w}? / s:Whom should
  one tell if {w}?
animals | <has> {av} {w} | colour2 animal_part | What colour is the {w} of {s}? / Of what colour is the {w} of {s}?
animals | got away through {v}; escaped through {v} | opening | Through what did {s} escape? / Through what did {s}
  get away?
animals | came in through {v}; <come> in through {v} | opening2 | Through what did {s} come in?
animals | <is> called {w} because {v}; ! People call {s} {w}, because {v}. | naming pet_name | Why <is> {s} called
  {w}? / w:What <is> {s} called?
animals | <was> seen {v} on {w} | place weekday | Where <was> {s} seen on {w}? / w:On which day <was> {s} seen?
animals | <was> eating {v} when it was found; <was> caught eating {v} | bite | What <was> {s} eating?
animals | <was> bought from {v}; <come> from {v} | firm | From whom <was> {s} bought? / Where <do> {s} come from?
animals | refused {v}; <will> not touch {v} | bite2 | What <does> {s} not touch? / What did {s} refuse?
animals | lost {v} in a fight | animal_part_a | What did {s} lose in a fight?
animals | <like> anything by {v}; <listen> only to songs by {v} | person | Whose music <does> {s} like?
animals | bit {v}; <has> bitten {v} | person | Who <was> bitten by {s}? / Whom did {s} bite?
person | took no money, only {v}; wanted no money, only {v} | a_goods | What did {s} take instead of money? / What
  did {s} take in place of money?
person | <get> {w} a week now and will get {v} from March on; <is> paid {w} a week, from March on {v} | price price
  | How much will {s} get from March on? / w:How much <do> {s} get a week now?
person | held the record until {v} | year | Until when did {s} hold the record or title? / Until when was {s} in the
  lead?
person | <wear> {v} on Sundays; <put> on {v} on Sundays | a_clothes | What <does> {s} wear on Sundays?
person | <keep> {v} in {w}; <has> {v} in {w} | own odd_holder | What <does> {s} keep in {w}? / w:Where <does> {s}
  keep {v}?
person | fell over {v}; stumbled over {v} | a_goods | What did {s} fall over? / Over what did {s} fall?
person | mistook {w} for {v}; took {w} for {v} | a_goods a_goods | For what did {s} mistake {w}? / What did {s} take
  {w} for?
person | hit {v} with {w}; struck {v} with {w} | the_object a_tool | w:With what did {s} hit {v}? / What did {s} hit
  with {w}?
person | filled {w} with {v}; stuffed {w} with {v} | goods_stuff odd_holder | With what did {s} fill {w}? / What did
  {s} fill {w} with?
person | covered {w} with {v}; lined {w} with {v} | wrap odd_holder | With what did {s} cover {w}? / What did {s}
  cover {w} with?
person | fastened {w} with {v}; tied up {w} with {v} | a_tie the_object | With what did {s} fasten {w}? / What did
  {s} fasten {w} with?
person | turned {w} into {v}; made {w} into {v} | building2 the_object | Into what did {s} turn {w}? / What did {s}
  make of {w}?
person | counted {v} {w} | number goods_many | How many {w} did {s} count?
person | guessed the price of {w}: {v}; put the price of {w} at {v} | price odd_holder | At what did {s} put the
  price of {w}? / What is the price of {w}, as {s} guessed?
person | blamed {v} for the noise; <is> sure that {v} made the noise | person | Whom did {s} blame for the noise? /
  Who made the noise, as {s} believes?
person | <owe> {ps} life to {v}; <was> saved by {v} | person | Who saved {s}? / To whom <does> {s} owe {ps} life?
person | <share> a room with {v}; <share> the kitchen with {v} | person | With whom <does> {s} share? / Who shares
  with {s}?
person | <look> like {v}; <is> the image of {v} | person | Whom <does> {s} look like? / Who <does> {s} look like?
"""
